"""`faces`: drawn faces in colour at 64×64, to exercise the CelebA path without a download.

What it is not: these are not photographs and not people, and no result on them is a result on
CelebA. They are ellipses and arcs whose colours, sizes and places are drawn at random: background,
hair, skin, eyes, brows, nose, mouth, glasses; the head turns (its features move sideways) and leans.
Labels tell the mouth: 0 neutral, 1 smiling, 2 open.
"""

import math
from types import MappingProxyType

import torch

from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry
from tvae.data.resampling import in_blocks, to_bytes
from tvae.seeding import generator

SIDE = 64
COUNTS = MappingProxyType({"train": 2000, "test": 400})
CLASSES = ("neutral", "smiling", "open mouth")

_SKIN = torch.tensor(
    [[255, 224, 196], [241, 194, 160], [224, 172, 125], [198, 134, 90], [141, 85, 52], [92, 58, 40]]
)
_HAIR = torch.tensor(
    [[30, 24, 22], [72, 46, 30], [120, 78, 44], [196, 152, 84], [150, 60, 32], [176, 172, 168]]
)
_IRIS = torch.tensor([[70, 44, 24], [96, 120, 60], [72, 112, 160], [110, 116, 120]])

_Number = torch.Tensor | float

# every random number of a face, in the order of the columns that are drawn for it
_DRAWN = (
    "skin",
    "skin_mix",
    "hair",
    "hair_mix",
    "iris",
    "ground_r",
    "ground_g",
    "ground_b",
    "ground_tilt",
    "x",
    "y",
    "lean",
    "turn",
    "nod",
    "width",
    "height",
    "hairline",
    "long_hair",
    "eye_gap",
    "eye_size",
    "eye_open",
    "look",
    "brow_tilt",
    "brow_high",
    "nose",
    "mouth",
    "mouth_width",
    "mouth_high",
    "smile",
    "light",
    "glasses",
    "blush",
)


def _unit(n: int, draw: torch.Generator) -> dict[str, torch.Tensor]:
    table = torch.rand((n, len(_DRAWN)), generator=draw)
    return {name: table[:, column, None, None] for column, name in enumerate(_DRAWN)}


def _blend(table: torch.Tensor, pick: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
    """A colour between two neighbours of a palette, (n, 3, 1, 1) in [0, 1]."""
    place = pick.flatten() * (len(table) - 1)
    low = place.floor().long().clamp(max=len(table) - 2)
    part = ((place - low) * 0.7 + mix.flatten() * 0.3)[:, None]
    colour = table[low] * (1 - part) + table[low + 1] * part
    return (colour / 255)[:, :, None, None]


def _paint(n: int, u: dict[str, torch.Tensor]) -> torch.Tensor:
    """The faces of one block of drawn numbers, (n, 3, 64, 64) in [0, 1].

    Coordinates: the picture spans [−1, 1] in x (right) and y (down). Shapes have edges that are
    soft over about a pixel, as the mean over a pixel would make them.
    """
    axis = (torch.arange(SIDE) + 0.5) * (2 / SIDE) - 1
    soft = 2 / SIDE
    y0, x0 = torch.meshgrid(axis, axis, indexing="ij")

    # the head's own coordinates: shifted, leaning
    lean = (u["lean"] - 0.5) * (30 * math.pi / 180)
    dx, dy = x0 - (u["x"] - 0.5) * 0.24, y0 - (u["y"] - 0.5) * 0.2 - 0.05
    x = torch.cos(lean) * dx + torch.sin(lean) * dy
    y = -torch.sin(lean) * dx + torch.cos(lean) * dy

    def ellipse(cx: _Number, cy: _Number, rx: _Number, ry: _Number) -> torch.Tensor:
        # distance to the outline, to first order: (1 − |p|) · the smaller radius
        rx, ry = torch.as_tensor(rx), torch.as_tensor(ry)
        across, down = (x - cx) / rx, (y - cy) / ry
        radius = across.mul_(across).addcmul_(down, down).sqrt_()
        steep = torch.minimum(rx, ry) / soft
        return radius.neg_().mul_(steep).add_(steep + 0.5).clamp_(0, 1)

    def over(picture: torch.Tensor, cover: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
        return picture.lerp_(colour.expand_as(picture), cover[:, None])

    ground = torch.stack([u["ground_r"], u["ground_g"], u["ground_b"]], 1) * 0.75 + 0.15
    slope = x0 * torch.cos(u["ground_tilt"] * 6.283) + y0 * torch.sin(u["ground_tilt"] * 6.283)
    picture = ground * (1 + 0.25 * slope)[:, None]

    skin, hair = _blend(_SKIN, u["skin"], u["skin_mix"]), _blend(_HAIR, u["hair"], u["hair_mix"])
    iris = _blend(_IRIS, u["iris"], u["skin_mix"])
    rx, ry = 0.42 + 0.1 * u["width"], 0.56 + 0.1 * u["height"]
    turn, nod = (u["turn"] - 0.5) * 0.5 * rx, (u["nod"] - 0.5) * 0.16
    cloth = ground.flip(1) * 0.8

    # behind the face: long hair, neck, shoulders
    is_long = (u["long_hair"] > 0.5).float()
    fall = ellipse(-0.2 * turn, 0.18, rx * 1.32, ry * 1.3) * is_long
    picture = over(picture, fall, hair * 0.85)
    picture = over(picture, ellipse(0.0, ry + 0.1, rx * 0.45, 0.45), skin * 0.82)
    picture = over(picture, ellipse(0.0, 1.35, 0.95, 0.52), cloth)
    # hair as a cap, then the face in it, then light from one side
    picture = over(picture, ellipse(-0.25 * turn, -0.12, rx * 1.16, ry * 1.08), hair)
    face = ellipse(0.0, 0.0, rx, ry)
    side = (u["light"] - 0.5) * 0.5
    lit = skin * (1 + side[:, None] * (x / rx)[:, None] - 0.06 * (y / ry)[:, None])
    picture = over(picture, face, lit.clamp(0, 1))
    cheek = torch.exp(-(((x.abs() - 0.6 * rx) / 0.14) ** 2 + ((y - 0.2) / 0.12) ** 2))
    rose = skin * torch.tensor([1.0, 0.72, 0.7])[:, None, None]
    picture = over(picture, 0.5 * u["blush"] * cheek * face, rose)
    fringe = ellipse(turn * 0.4, -ry, rx * 1.1, (0.3 + 0.35 * u["hairline"]) * ry)
    picture = over(picture, fringe * face, hair)

    # features: they follow the turn of the head
    gap, eye = 0.17 + 0.05 * u["eye_gap"], 0.085 + 0.03 * u["eye_size"]
    lid = eye * (0.35 + 0.35 * u["eye_open"])
    level = -0.08 + nod
    look = (u["look"] - 0.5) * 0.08
    for sign in (-1.0, 1.0):
        # the eye on the far side looks narrower
        near = 1 + 0.5 * sign * turn
        cx = turn + sign * gap * near
        white = ellipse(cx, level, eye * near, lid)
        picture = over(picture, white, torch.tensor([0.96, 0.96, 0.94])[:, None, None])
        ring = ellipse(cx + look, level, lid * 0.95, lid * 0.95) * white
        picture = over(picture, ring, iris)
        pupil = ellipse(cx + look, level, lid * 0.5, lid * 0.5) * white
        picture = over(picture, pupil, torch.tensor([0.05, 0.05, 0.05])[:, None, None])
        tilt = sign * (u["brow_tilt"] - 0.5) * 0.5
        brow_y = level - 0.13 - 0.05 * u["brow_high"] + tilt * (x - cx)
        brow = ellipse(cx, brow_y, eye * 1.35 * near, 0.035)
        picture = over(picture, brow * face, hair * 0.7)
        rim = ellipse(cx, level, eye * 1.5, eye * 1.35) - ellipse(cx, level, eye * 1.22, eye * 1.08)
        worn = (u["glasses"] > 0.8).float()
        picture = over(picture, (rim * worn).clamp(0, 1), torch.tensor([0.1] * 3)[:, None, None])
    nose_y = 0.12 + nod
    shade = ellipse(turn * 1.25, nose_y, 0.05 + 0.03 * u["nose"], 0.1)
    picture = over(picture, 0.55 * shade, skin * 0.72)

    # mouth: an arc whose bend is the smile; the open one is an ellipse
    kind = (u["mouth"] * 3).floor().clamp(max=2)
    bend = torch.where(kind == 1, -(0.35 + 0.5 * u["smile"]), (u["smile"] - 0.5) * 0.2)
    mouth_y = 0.3 + 0.04 * u["mouth_high"] + nod
    half = 0.14 + 0.07 * u["mouth_width"]
    arc_y = mouth_y + bend * ((x - turn) ** 2 / half - half * 0.5)
    lips = ellipse(turn, arc_y, half, 0.035)
    red = skin * torch.tensor([0.8, 0.42, 0.42])[:, None, None]
    closed = (kind < 2).float()
    picture = over(picture, lips * closed, red)
    gape = 0.05 + 0.06 * u["smile"]
    picture = over(picture, ellipse(turn, mouth_y, half * 0.8, gape + 0.03) * (1 - closed), red)
    dark = torch.tensor([0.25, 0.06, 0.07])[:, None, None]
    picture = over(picture, ellipse(turn, mouth_y, half * 0.65, gape) * (1 - closed), dark)
    return picture.clamp_(0, 1)


def load(split: str = "train", *, count: int | None = None, seed: int = 0) -> Dataset:
    """Faces (N, 3, 64, 64) uint8; 2,000 train and 400 test images unless `count` says otherwise."""
    count = COUNTS[split] if count is None else count
    if isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        raise ValueError(f"count must be a positive whole number of faces, not {count!r}.")
    drawn = _unit(count, generator(seed, f"faces/{split}"))
    images = torch.empty((count, 3, SIDE, SIDE), dtype=torch.uint8)

    def work(part: slice) -> None:
        block = {name: values[part] for name, values in drawn.items()}
        images[part] = to_bytes(_paint(part.stop - part.start, block) * 255)

    in_blocks(work, count, 32)
    return describe(
        "faces",
        "embedded",
        split,
        images,
        (drawn["mouth"].flatten() * 3).long().clamp_(max=2),
        note=(
            f"seed {seed}; drawn by a program: a stand-in that exercises the CelebA path, neither "
            f"photographs nor CelebA"
        ),
        classes=CLASSES,
    )


ENTRY = Entry(
    name="faces",
    title="faces",
    embedded=load,
    known_shape=(3, SIDE, SIDE),
    known_counts=(COUNTS["train"], COUNTS["test"]),
    shared_classes=False,  # a mouth is no class of faces: accuracies would mean nothing
    width=12,  # there is less in them than in photographs
    terms="drawn by a program of this package",
)
