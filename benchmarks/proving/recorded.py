"""The recorded cells of the repository: `docs/proving/cells.jsonl` and their draws, so that another machine can go on.

Draws are kept as differences from the value of all test users, in half precision: off by a thousandth of their spread.
"""

from pathlib import Path

import numpy as np
import torch

from benchmarks.proving.cells import CELLS, draws_path, name_of, read_cells, read_draws
from resus.errors import ArtifactError
from resus.files import atomic_path, write_text
from resus.tensor_files import save_tensors

RECORDED_CELLS = Path("docs/proving") / CELLS
RECORDED_DRAWS = Path("benchmarks/proving/draws.npz")


def record(folder: Path) -> None:
    """Write the finished cells of a folder, and their draws, into the repository."""
    arrays: dict[str, np.ndarray] = {}
    for cell in read_cells(folder):
        draws = read_draws(folder, cell)
        if draws is None:
            continue
        name, values = name_of(cell.key), np.stack(list(draws.values()))
        arrays[f"{name}/keys"] = np.array([f"{stage} {metric}" for stage, metric in draws])
        arrays[f"{name}/all"] = values[:, 0]
        arrays[f"{name}/draws"] = (values[:, 1:] - values[:, :1]).astype(np.float16)
    with atomic_path(RECORDED_DRAWS) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # its stub takes no mapping
    write_text(RECORDED_CELLS, (folder / CELLS).read_text(encoding="utf-8"))


def restore(folder: Path) -> int:
    """Put the recorded cells into a folder that has none yet; returns how many."""
    if read_cells(folder):
        raise ArtifactError(f"{folder} holds cells already: leave out --recorded, or choose another folder with --out")
    cells = read_cells(RECORDED_CELLS.parent)
    with np.load(RECORDED_DRAWS, allow_pickle=False) as recorded:
        for cell in cells:
            name = name_of(cell.key)
            if f"{name}/keys" not in recorded:
                continue
            whole = recorded[f"{name}/all"][:, None]
            values = np.concatenate([whole, whole + recorded[f"{name}/draws"]], axis=1)
            keys = recorded[f"{name}/keys"].tolist()
            tensors = {key: torch.from_numpy(row.copy()) for key, row in zip(keys, values, strict=True)}
            save_tensors(draws_path(folder, cell.key), tensors, {"mark": cell.mark})
    write_text(folder / CELLS, RECORDED_CELLS.read_text(encoding="utf-8"))
    return len(cells)
