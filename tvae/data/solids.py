"""`solids`: short films of solids, on a turntable or under a moving light, drawn by this program.

What an image shows between two frames is no homography: faces come into view, others go, all change
their grey. Yet the world behind it is simple, and known here to the last digit:

- A **solid** is one to three convex parts, each what some half-spaces and one elliptic body have in
  common; `FAMILIES` draws their proportions at random. The z axis points up, the table is z = 0.
- The **camera** looks down at 30° from far away (a parallel projection), the same for all images.
- The **light** is half a sky: a surface with normal n gets (1 + n·l)/2 of its light, l the middle of
  that half sky, 15° above the horizon. (For a Lambert surface and an evenly bright half of the sphere
  of directions this is exact, so no shading model is needed; solids cast no shadows.)
- A **film** has `FRAMES` frames. Either the table turns or the light crosses the sky in front of it, by
  a constant number of degrees a frame. While the table turns, the light stands still on the right.

Images are 28×28, the mean of 3×3 rays a pixel. Families of training and testing are the same, their
solids are not; one family, `stairs`, is held out altogether (split "unseen"). Everything follows from
the seed of the split, so nothing is stored: a film takes about a hundredth of a second.

**Convention.** Pictures have x to the right, y down, the pixel (i, j) covers j ≤ x < j + 1 of 28; the
side of the picture is 2.5 units of the world, its middle looks at the point (0, 0, 0.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from tvae.checks import check_whole
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry
from tvae.seeding import generator

SIDE, RAYS, FRAMES = 28, 3, 5
WIDTH, MIDDLE = 2.5, (0.0, 0.0, 0.5)  # of the world that the picture shows, and what it looks at
CAMERA, SUN = math.radians(30), math.radians(15)  # how high camera and light stand
#: The largest velocity of either motion, degrees a frame.
FASTEST = {"turntable": 30.0, "light": 40.0}
STILL = 60.0  # where a light stands that does not move: in front, to the right
COUNTS = {"train": 3000, "test": 300, "unseen": 300}  # films
_CHUNK = 64  # images drawn at once


class Solid(NamedTuple):
    """Solids of up to P parts: every part is where all its planes and its elliptic body allow.

    - `planes` (N, P, F, 4): n and h of n·x ≤ h; n = 0, h = 1 where there is none;
    - `body` (N, P, 3, 3) and `centre` (N, P, 3): |body (x − centre)| ≤ 1; body = 0 where there is none;
    - `grey` (N, P): the share of light that a part reflects; 0 for a part that is not there.
    """

    planes: Tensor
    body: Tensor
    centre: Tensor
    grey: Tensor

    def __len__(self) -> int:  # of the solids, not of the tuple
        return len(self.planes)

    def rows(self, index: Tensor | slice) -> Solid:
        """Some of the solids."""
        return Solid(*(part[index] for part in self))


# --- families -----------------------------------------------------------------------------------


def _ranges(u: Tensor, *ends: tuple[float, float]) -> list[Tensor]:
    """Columns of uniform numbers (N, ≥ len(ends)), each stretched to its range."""
    return [low + (high - low) * u[:, i] for i, (low, high) in enumerate(ends)]


def slab(
    sides: Sequence[tuple[Tensor, Tensor, Tensor | float]], low: Tensor | float, high: Tensor
) -> Tensor:
    """Planes (N, F, 4) of an upright body between two heights; sides are (angle, distance, slope).

    A side stands at `distance` from the axis at the height zero in the direction `angle`; with a
    slope it leans inwards.
    """
    n = len(high)
    rows = []
    for angle, distance, slope in sides:
        up = torch.as_tensor(slope, dtype=torch.float32).expand(n)
        rows.append(torch.stack((angle.cos(), angle.sin(), up, distance.expand(n)), 1))
    zero, one = torch.zeros(n), torch.ones(n)
    rows.append(torch.stack((zero, zero, one, high.expand(n)), 1))
    rows.append(
        torch.stack((zero, zero, -one, -torch.as_tensor(low, dtype=torch.float32).expand(n)), 1)
    )
    return torch.stack(rows, 1)


def cuboid(x: tuple[Tensor, Tensor], y: tuple[Tensor, Tensor], z: tuple[Tensor, Tensor]) -> Tensor:
    """Planes (N, 6, 4) of boxes between x[0] and x[1], y[0] and y[1], z[0] and z[1]."""
    turn = torch.zeros_like(x[0])
    right = math.pi / 2
    sides: list[tuple[Tensor, Tensor, Tensor | float]] = [
        (turn, x[1], 0.0),
        (turn + 2 * right, -x[0], 0.0),
        (turn + right, y[1], 0.0),
        (turn + 3 * right, -y[0], 0.0),
    ]
    return slab(sides, z[0], z[1])


def _solid(parts: list[Tensor | None], bodies: list[Tensor | None], grey: Tensor) -> Solid:
    """Parts put together: planes (N, F, 4) each, bodies as semi-axes (N, 3), inf for no limit."""
    n, most = len(grey), max([1, *(p.shape[1] for p in parts if p is not None)])
    planes = torch.zeros(n, len(parts), most, 4)
    planes[..., 3] = 1
    body = torch.zeros(n, len(parts), 3, 3)
    for i, (p, axes) in enumerate(zip(parts, bodies, strict=True)):
        if p is not None:
            planes[:, i, : p.shape[1]] = p
        if axes is not None:
            body[:, i] = torch.diag_embed(1 / axes)
    return Solid(planes, body, torch.zeros(n, len(parts), 3), grey.expand(n, len(parts)).clone())


def box(u: Tensor) -> Solid:
    """A box, half as long again as wide or more."""
    a, ratio, h, grey = _ranges(u, (0.35, 0.6), (1.4, 2.1), (0.5, 1.2), (0.6, 1.0))
    b = (a * ratio).clamp(max=0.95)
    return _solid([cuboid((-b, b), (-a, a), (0 * a, h))], [None], grey[:, None])


def prism(u: Tensor) -> Solid:
    """A prism with three unequal sides, upright or leaning inwards to a pyramid's stump."""
    a, b, c, h, slope, grey = _ranges(
        u, (0.3, 0.5), (0.3, 0.5), (0.3, 0.5), (0.6, 1.2), (0.0, 0.3), (0.6, 1.0)
    )
    third = torch.full_like(a, 2 * math.pi / 3)
    sides = [(i * third, d, slope) for i, d in enumerate((a, b, c))]
    return _solid([slab(sides, 0.0, h)], [None], grey[:, None])


def drum(u: Tensor) -> Solid:
    """An elliptic cylinder, cut off slantwise."""
    a, ratio, h, slant, grey = _ranges(
        u, (0.35, 0.55), (1.6, 2.2), (0.5, 0.9), (-0.45, 0.45), (0.6, 1)
    )
    b = (a * ratio).clamp(max=0.95)
    planes = slab([], 0.0, h)
    planes[:, 0, 0] = slant
    planes[:, 0] /= planes[:, 0, :3].norm(dim=1, keepdim=True)
    axes = torch.stack((b, a, torch.full_like(a, math.inf)), 1)
    return _solid([planes], [axes], grey[:, None])


def dome(u: Tensor) -> Solid:
    """Half an ellipsoid on the table, with one flat side."""
    a, ratio, h, cut, grey = _ranges(u, (0.4, 0.6), (1.5, 2.0), (0.6, 1.2), (0.0, 0.5), (0.6, 1.0))
    b = (a * ratio).clamp(max=0.95)
    sides: list[tuple[Tensor, Tensor, Tensor | float]] = [(0 * a, b * cut, 0.0)]
    planes = slab(sides, 0.0, h + 1)
    return _solid([planes], [torch.stack((b, a, h), 1)], grey[:, None])


def bracket(u: Tensor) -> Solid:
    """Two boxes: a plate that lies and a wall that stands at one end of it. Not convex."""
    a, b, low, thick, h, grey = _ranges(
        u, (0.35, 0.7), (0.6, 0.9), (0.15, 0.4), (0.2, 0.5), (0.8, 1.2), (0.6, 1.0)
    )
    plate = cuboid((-b, b), (-a, a), (0 * a, low))
    wall = cuboid((-b, -b + thick), (-a, a), (0 * a, h))
    return _solid([plate, wall], [None, None], grey[:, None])


def house(u: Tensor) -> Solid:
    """A box with a ridged roof and a chimney beside the ridge. Not convex."""
    a, ratio, h, slope, place, grey = _ranges(
        u, (0.35, 0.55), (1.3, 1.8), (0.4, 0.6), (0.5, 1.0), (-0.5, 0.5), (0.6, 1.0)
    )
    b = (a * ratio).clamp(max=0.9)
    walls = cuboid((-b, b), (-a, a), (0 * a, h))
    turn, right = 0 * a, math.pi / 2
    top = h + a * slope
    sides: list[tuple[Tensor, Tensor, Tensor | float]] = [
        (turn, b, 0.0),
        (turn + 2 * right, b, 0.0),
        (turn + right, top / slope, 1 / slope),
        (turn + 3 * right, top / slope, 1 / slope),
    ]
    roof = slab(sides, h, top)
    x = place * b
    chimney = cuboid((x - 0.13, x + 0.13), (a * 0.15, a * 0.15 + 0.26), (h, top + 0.15))
    return _solid([walls, roof, chimney], [None] * 3, grey[:, None])


def stairs(u: Tensor) -> Solid:
    """Three boxes, each higher than the one before. Held out of training altogether."""
    a, b, h, first, grey = _ranges(u, (0.4, 0.7), (0.7, 0.9), (0.8, 1.2), (0.2, 0.4), (0.6, 1.0))
    third = 2 * b / 3
    steps = [
        cuboid(
            (-b + i * third, -b + (i + 1) * third),
            (-a, a),
            (0 * a, h * (first + (1 - first) * i / 2)),
        )
        for i in range(3)
    ]
    return _solid(list(steps), [None] * 3, grey[:, None])


#: Families by name: uniform numbers (N, 6) to N solids. The last one is held out.
FAMILIES: dict[str, Callable[[Tensor], Solid]] = {
    f.__name__: f for f in (box, prism, drum, dome, bracket, house, stairs)
}
MOTIONS = tuple(FASTEST)


# --- drawing ------------------------------------------------------------------------------------


def direction(azimuth: Tensor, height: float) -> Tensor:
    """Unit vectors (N, 3) at a height above the horizon; azimuth 0 is the camera's, π/2 its right."""
    flat = math.cos(height)
    return torch.stack(
        (
            flat * azimuth.sin(),
            -flat * azimuth.cos(),
            torch.full_like(azimuth, math.sin(height)),
        ),
        1,
    )


def render(solid: Solid, turn: Tensor, light: Tensor, side: int = SIDE, rays: int = RAYS) -> Tensor:
    """Images (N, 1, side, side) in [0, 1] of N solids on the table turned by `turn`, lit from `light`.

    Both are angles (N,) in degrees: of the table, counter-clockwise from above, and of the light's
    azimuth, 0 from behind the camera.
    """
    if not len(solid) == len(turn) == len(light):
        raise ValueError(
            f"Every solid needs one angle of the table and one of the light: {len(solid)}, "
            f"{len(turn)} and {len(light)} differ."
        )
    n, fine = len(solid), check_whole(side, "The side") * check_whole(rays, "The number of rays")
    images = torch.empty(n, 1, side, side)
    place = ((torch.arange(fine) + 0.5) / fine - 0.5) * WIDTH
    for start in range(0, n, _CHUNK):
        rows = slice(start, start + _CHUNK)
        grey = _trace(solid.rows(rows), turn[rows].deg2rad(), light[rows].deg2rad(), place)
        images[rows, 0] = grey.unflatten(1, (side, rays)).unflatten(3, (side, rays)).mean((2, 4))
    return images.clamp_(0, 1)


def _trace(solid: Solid, turn: Tensor, light: Tensor, place: Tensor) -> Tensor:
    """The light that every ray meets, (N, fine, fine); ray (i, j) has y = −place[i], x = place[j]."""
    cos, sin, zero = turn.cos(), turn.sin(), torch.zeros_like(turn)
    table = torch.stack((cos, -sin, zero, sin, cos, zero, zero, zero, zero + 1), 1).view(-1, 3, 3)
    view = direction(torch.zeros(1), CAMERA)[0]
    right = torch.tensor((1.0, 0.0, 0.0))
    axes = torch.stack((right, torch.linalg.cross(view, right), view))  # right, up, to the camera
    # everything in the camera's axes, so that a ray is (x, y, s) with s free; s grows to the camera
    frame = axes @ table  # (N, 3, 3): from the solid's own axes
    normals = torch.einsum("nij,npfj->npfi", frame, solid.planes[..., :3])
    offset = torch.einsum("npfi,i->npf", normals, axes @ torch.tensor(MIDDLE))
    heights = solid.planes[..., 3] - offset
    body = torch.einsum("npij,nkj->npik", solid.body, frame)
    centre = torch.einsum("nij,npj->npi", frame, solid.centre) - axes @ torch.tensor(MIDDLE)
    sun = direction(light, SUN) @ axes.mT  # (N, 3)

    x, y = place[None, None, None, :], -place[None, None, :, None]  # (1, 1, fine, 1) and turned
    shape = (len(turn), solid.planes.shape[1], len(place), len(place))
    near, far = torch.full(shape, math.inf), torch.full(shape, -math.inf)  # s between far and near
    glow = torch.zeros(shape)  # n·l of the surface at `near`
    for f in range(solid.planes.shape[2]):
        normal, height = normals[:, :, f], heights[:, :, f]
        # a plane that the ray runs along is met very far in front or very far behind
        slope = normal[..., 2].where(normal[..., 2].abs() > 1e-6, torch.full_like(height, 1e-6))
        along = (height / slope)[..., None, None]
        along = along - (normal[..., 0] / slope)[..., None, None] * x
        s = along - (normal[..., 1] / slope)[..., None, None] * y
        front = (slope > 0)[..., None, None]
        closer = front & (s < near)
        shade = (normal * sun[:, None]).sum(-1) / normal.norm(dim=-1).clamp(min=1e-9)
        glow = torch.where(closer, shade[..., None, None], glow)
        near = torch.where(closer, s, near)
        far = torch.where(~front & (s > far), s, far)
    if bool(solid.body.any()):
        near, far, glow = _meet_bodies(body, centre, sun, x, y, near, far, glow)
    hit = (near > far) & torch.isfinite(near) & (solid.grey > 0)[..., None, None]
    depth = torch.where(hit, near, torch.full_like(near, -math.inf))
    first = depth.argmax(1, keepdim=True)
    lit = solid.grey[..., None, None] * (1 + glow) / 2 * hit
    return lit.gather(1, first)[:, 0]


def _dot(a: list[Tensor], b: list[Tensor]) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _meet_bodies(
    body: Tensor,
    centre: Tensor,
    sun: Tensor,
    x: Tensor,
    y: Tensor,
    near: Tensor,
    far: Tensor,
    glow: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """`near`, `far` and `glow` after the elliptic bodies as well: |q + s w| ≤ 1 along each ray."""
    columns = [[body[..., i, j, None, None] for i in range(3)] for j in range(3)]
    w = columns[2]
    middle = [centre[..., j, None, None] for j in range(3)]
    q = [
        columns[0][i] * (x - middle[0]) + columns[1][i] * (y - middle[1]) - w[i] * middle[2]
        for i in range(3)
    ]
    there = body.abs().sum((2, 3))[..., None, None] > 0
    a, b, c = _dot(w, w).clamp(min=1e-12), _dot(w, q), _dot(q, q) - 1
    inside = b.square() - a * c
    root = inside.clamp(min=0).sqrt()
    s, back = (-b + root) / a, (-b - root) / a
    point = [q[i] + s * w[i] for i in range(3)]
    normal = [_dot(columns[j], point) for j in range(3)]
    length = _dot(normal, normal).clamp(min=1e-12).sqrt()
    shade = _dot(normal, [sun[:, None, j, None, None] for j in range(3)]) / length
    front = there & (s < near)
    glow = torch.where(front, shade, glow)
    near, far = torch.where(front, s, near), torch.where(there, torch.maximum(far, back), far)
    return torch.where(there & (inside < 0), torch.full_like(near, -math.inf), near), far, glow


# --- films --------------------------------------------------------------------------------------


class Films(NamedTuple):
    """Films of N solids, T frames each.

    - `images` (N, T, 1, 28, 28) uint8; `family` (N,), an index into `FAMILIES`;
    - `angles` (N, T, 2) in degrees, of table and light in every frame;
    - `velocity` (N, 2), degrees a frame at the start; `acceleration` (N, 2), by how much that grows
      from one step to the next.
    """

    images: Tensor
    family: Tensor
    angles: Tensor
    velocity: Tensor
    acceleration: Tensor


def _sunrise(u: Tensor, velocity: Tensor, frames: int) -> Tensor:
    """Where a light starts whose film shall stay in front of the table, from left to right or back."""
    half = velocity * (frames - 1) / 2
    return (2 * u - 1) * (90 - half.abs()).clamp(min=0) - half


def film(
    count: int,
    draws: torch.Generator,
    families: tuple[str, ...] = tuple(FAMILIES)[:-1],
    frames: int = FRAMES,
    motions: tuple[str, ...] = MOTIONS,
    acceleration: float = 0.0,
) -> Films:
    """`count` films, each of a solid drawn anew, with one motion or, with `motions=("both",)`, both.

    With `acceleration` a, velocities change from step to step by up to a times the largest velocity.
    """
    if unknown := [name for name in families if name not in FAMILIES]:
        raise ValueError(f"There is no family {unknown[0]!r}; there are {', '.join(FAMILIES)}.")
    if unknown := [name for name in motions if name not in (*MOTIONS, "both")]:
        raise ValueError(f"A motion is turntable, light or both, not {unknown[0]!r}.")
    check_whole(frames, "The number of frames")
    u = torch.rand(check_whole(count, "The number of films"), 14, generator=draws)
    family = torch.tensor([list(FAMILIES).index(name) for name in families])
    family = family[(u[:, 0] * len(families)).long()]
    motion = (u[:, 1] * len(motions)).long()
    moves = torch.tensor([[name in (m, "both") for m in MOTIONS] for name in motions])[motion]
    fastest = torch.tensor(list(FASTEST.values()))
    velocity = (2 * u[:, 2:4] - 1) * fastest * moves
    change = (2 * u[:, 4:6] - 1) * fastest * moves * acceleration
    t = torch.arange(frames)[:, None]
    start = torch.stack((360 * u[:, 6], _sunrise(u[:, 7], velocity[:, 1], frames)), 1)
    start[:, 1] = start[:, 1].where(moves[:, 1], torch.tensor(STILL))
    start = start[:, None]
    angles = start + t * velocity[:, None] + t * (t - 1) / 2 * change[:, None]
    images = torch.empty(count, frames, 1, SIDE, SIDE, dtype=torch.uint8)
    for index, make in enumerate(FAMILIES.values()):  # together what has the same parts
        rows = (family == index).nonzero()[:, 0]
        if len(rows):
            solid = make(u[rows, 8:]).rows(torch.arange(len(rows)).repeat_interleave(frames))
            turn, light = angles[rows].flatten(0, 1).unbind(1)
            drawn = render(solid, turn, light)
            images[rows] = (drawn * 255).round().byte().unflatten(0, (-1, frames))
    return Films(images, family, angles, velocity, change)


@lru_cache(maxsize=4)
def _films(split: str, count: int, seed: int) -> Films:
    families = tuple(FAMILIES)[-1:] if split == "unseen" else tuple(FAMILIES)[:-1]
    return film(count, generator(seed, f"solids/{split}"), families)


def load(split: str = "train", *, count: int | None = None, seed: int = 0) -> Dataset:
    """Films of `FRAMES` frames, one after another: images (count · 5, 1, 28, 28), labels: families.

    Splits are "train", "test" (other solids of the same families) and "unseen" (solids of a family
    that training does not have). The extras `velocity` (degrees a frame, of table and light) and
    `angles` are there for measuring; training does not look at them.
    """
    if split not in COUNTS:
        raise ValueError(f"Unknown split {split!r} of solids: choose one of {', '.join(COUNTS)}.")
    count = COUNTS[split] if count is None else check_whole(count, "The number of films")
    films = _films(split, count, check_whole(seed, "The seed", least=0))
    return describe(
        "solids",
        "generated",
        split,
        films.images.flatten(0, 1),
        films.family.repeat_interleave(FRAMES),
        note=f"{count:,} films of {FRAMES} frames, seed {seed}",
        classes=tuple(FAMILIES),
        extras={
            "velocity": films.velocity.repeat_interleave(FRAMES, 0),
            "angles": films.angles.flatten(0, 1),
        },
    )


ENTRY = Entry(
    name="solids",
    title="Solids",
    embedded=load,
    embedded_as="films drawn by the package",
    embedded_splits=tuple(COUNTS),
    known_shape=(1, SIDE, SIDE),
    known_counts=(COUNTS["train"] * FRAMES, COUNTS["test"] * FRAMES),
    known_likelihood="gaussian",  # shades of grey matter here, which Bernoulli pixels hardly feel
    frames=FRAMES,
    terms="made by this package, under its licence",
)
