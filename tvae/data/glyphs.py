"""`glyphs`: printed characters of many scripts, distorted as if by hand, grouped in alphabets.

The stand-in for Omniglot that needs no download. What it is not: it is not handwriting, not
Omniglot, and no result on it is a result on Omniglot. What it shares with Omniglot: many characters
of many alphabets, twenty drawings of each, white ink on black at 28×28, and test alphabets that do
not occur in training.

Each character is rendered once from DejaVu Sans (which ships with matplotlib) and turned into a
signed distance field: at each point the distance to the outline, positive within the ink. A drawing
is that field seen through a random affine map and a smooth random displacement, and inked where the
distance exceeds a random level, which makes strokes thinner or thicker. Characters that look the
same in two scripts are listed in one of them only.

The pixels depend a little on the version of FreeType that renders the outlines, so the checksum in
the provenance is that of the images in hand.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F

from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry
from tvae.data.resampling import in_blocks, to_bytes
from tvae.seeding import generator

DRAWINGS = 20  # of each character, as in Omniglot
SIDE = 28

ALPHABETS = MappingProxyType(
    {
        "Latin": "abcdefghijklmnopqrstuvwxyz",
        "Greek": "αβγδεζηθικλμνξπςστυφχψω",
        "Cyrillic": "бвгджзийклмнптфцчшщъыьэюя",
        "Armenian": "աբգդեզէըթժիլխծկձղճմյնշչպջռվտրւփքֆ",
        "Hebrew": "אבגדהוזחטיךכלםמנסעףפץצקרשת",
        "Tifinagh": "ⴰⴱⴳⴷⴹⴻⴼⴽⵀⵃⵄⵅⵇⵉⵊⵍⵎⵓⵔⵕⵖⵙⵚⵛⵜⵟⵡⵢⵣⵥ",
        "NKo": "ߋߌߍߎߏߐߑߒߓߔߕߖߗߘߙߚߛߜߝߞߟߠߡߢߣߤߥߦߧ",
        "Canadian_Syllabics": "ᐁᐃᐅᐊᐯᐳᐸᑌᑎᑐᑕᑫᑭᑯᑲᒉᒋᒍᒐᒣᒥᒧᒪᓀᓂᓄᓇᓓᓕᓗᓚᓭᓯᓱᓴᔦᔨᔪᔭ",
        "Ogham": "ᚁᚂᚃᚄᚅᚆᚇᚈᚉᚊᚋᚌᚍᚎᚏᚐᚑᚒᚓᚔ",
        "Georgian": "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ",
        "Arabic": "بتثجحخدذرزسشصضطظعغفقكلمنهوي",
        "Lao": "ກຂຄງຈຊຍດຕຖທນບປຜຝພຟມຢຣລວສຫອຮ",
        "Old_Italic": "𐌀𐌁𐌂𐌃𐌄𐌅𐌆𐌇𐌈𐌊𐌋𐌌𐌍𐌎𐌏𐌐𐌑𐌒𐌓𐌔𐌕𐌖𐌗𐌘𐌙𐌚𐌛𐌜𐌝𐌞",
    }
)
TEST = ("Georgian", "Arabic", "Lao", "Old_Italic")
TRAIN = tuple(name for name in ALPHABETS if name not in TEST)

_FINE = 4  # fine pixels per pixel in the distance fields
_BOX = 19  # a character's larger side, in pixels


def font_path() -> Path:
    """DejaVu Sans as matplotlib ships it."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


def _mask(character: str) -> np.ndarray:
    """The character in the middle of a fine canvas, (112, 112) bool."""
    from PIL import Image, ImageDraw, ImageFont

    def font(size: float) -> ImageFont.FreeTypeFont:
        return ImageFont.truetype(str(font_path()), size, layout_engine=ImageFont.Layout.BASIC)

    probe = 200
    left, top, right, bottom = font(probe).getbbox(character)
    # small signs (a dot, a short bar) are enlarged only up to what a quarter of an em would need
    side = max(right - left, bottom - top, probe / 4)
    chosen = font(round(probe * _BOX * _FINE / side))
    canvas = SIDE * _FINE
    picture = Image.new("L", (canvas, canvas))
    left, top, right, bottom = chosen.getbbox(character)
    corner = ((canvas - left - right) / 2, (canvas - top - bottom) / 2)
    ImageDraw.Draw(picture).text(corner, character, font=chosen, fill=255)
    return np.asarray(picture) > 127


@cache
def _fields(alphabet: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Distance fields (n, 1, 112, 112) of an alphabet, in pixels, and half stroke widths (n,)."""
    from scipy.ndimage import distance_transform_edt

    fields, halves = [], []
    for character in ALPHABETS[alphabet]:
        ink = _mask(character)
        if not ink.any():
            raise ValueError(f"DejaVu Sans draws nothing for U+{ord(character):04X} ({alphabet}).")
        inside = distance_transform_edt(ink)
        outside = distance_transform_edt(~ink)
        # pixel centres are half a fine pixel away from the edge between ink and ground
        field = np.where(ink, inside - 0.5, 0.5 - outside) / _FINE
        fields.append(torch.from_numpy(field).float()[None])
        # across a stroke of half-width h the distance averages h / 2
        halves.append(2 * float(field[ink].mean()))
    return torch.stack(fields), torch.tensor(halves)


def _maps(count: int, draw: torch.Generator) -> torch.Tensor:
    """Random affine maps from drawing to character, (count, 2, 3), about the centre, in pixels."""

    def spread(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(count, generator=draw, dtype=torch.float64)

    angle, shear = spread(-15, 15) * math.pi / 180, spread(-0.25, 0.25)
    wide, high = spread(0.87, 1.25), spread(0.87, 1.25)  # > 1 draws the character smaller
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [wide * cos, wide * (cos * shear - sin), spread(-1.5, 1.5)]
    rows += [high * sin, high * (sin * shear + cos), spread(-1.5, 1.5)]
    return torch.stack(rows, 1).reshape(count, 2, 3).float()


def _draw(fields: torch.Tensor, halves: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """One drawing of each field, (n, 1, 28, 28) uint8."""
    n = len(fields)
    maps = _maps(n, draw)
    # displacement: random vectors on a 5×5 lattice, joined smoothly; up to 1.6 pixels
    lattice = (2 * torch.rand((n, 2, 5, 5), generator=draw) - 1) * 1.6
    half_width = 0.75 + 0.55 * torch.rand(n, generator=draw)
    # where a stroke is eroded it keeps at least 40 % of its own width: thin parts must not vanish
    level = torch.minimum(halves - half_width, 0.6 * halves)
    result = torch.empty((n, 1, SIDE, SIDE), dtype=torch.uint8)
    axis = torch.arange(SIDE) + (0.5 - SIDE / 2)

    def work(part: slice) -> None:
        smooth = F.interpolate(lattice[part], SIDE, mode="bicubic", align_corners=True)
        x, y = axis + smooth[:, 0], axis[:, None] + smooth[:, 1]
        a = maps[part, :, :, None, None]
        points = a[:, :, 0] * x[:, None] + a[:, :, 1] * y[:, None] + a[:, :, 2]
        grid = points.permute(0, 2, 3, 1) / (SIDE / 2)
        depth = F.grid_sample(fields[part], grid, "bilinear", "border", align_corners=False)
        # within half a pixel of the outline the pixel is partly inked
        ink = (depth - level[part, None, None, None] + 0.5).clamp_(0, 1)
        result[part] = to_bytes(ink * 255)

    in_blocks(work, n, 256)
    return result


def load(split: str = "train", *, seed: int = 0, drawings: int = DRAWINGS) -> Dataset:
    """Glyphs (N, 1, 28, 28) uint8; labels number the characters, `groups` names their alphabets.

    `drawings` is the number of drawings of each character; they follow one another, as in Omniglot.
    The same seed gives the same drawings.
    """
    if isinstance(drawings, bool) or not isinstance(drawings, int) or drawings <= 0:
        raise ValueError(f"drawings must be a positive whole number, not {drawings!r}.")
    names = {"train": TRAIN, "test": TEST}[split]
    parts = [_fields(name) for name in names]
    fields = torch.cat([part[0] for part in parts]).repeat_interleave(drawings, dim=0)
    halves = torch.cat([part[1] for part in parts]).repeat_interleave(drawings)
    images = _draw(fields, halves, generator(seed, f"glyphs/{split}"))
    characters = [(name, character) for name in names for character in ALPHABETS[name]]
    return describe(
        "glyphs",
        "embedded",
        split,
        images,
        torch.arange(len(characters)).repeat_interleave(drawings),
        note=(
            f"{len(characters)} characters of {len(names)} alphabets, seed {seed}; printed "
            f"characters of DejaVu Sans, distorted: a stand-in for Omniglot, neither handwriting "
            f"nor Omniglot"
        ),
        classes=[f"{name}/{character}" for name, character in characters],
        groups=[name for name, _ in characters],
    )


def _count(names: tuple[str, ...]) -> int:
    return DRAWINGS * sum(len(ALPHABETS[name]) for name in names)


ENTRY = Entry(
    name="glyphs",
    title="glyphs",
    embedded=load,
    known_shape=(1, SIDE, SIDE),
    known_counts=(_count(TRAIN), _count(TEST)),
    shared_classes=False,  # other alphabets test than train
    terms="made from DejaVu Sans (Bitstream Vera licence), which matplotlib ships",
)
