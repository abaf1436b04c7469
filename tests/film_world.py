"""A small planted world of films: titles, genres and years, and users each of whom likes some genres better."""

import numpy as np
import polars as pl

from resus import FieldSchema, InteractionLog, TableSchema, build_log
from resus.data.options import BuildOptions

SUBJECTS = {
    "Rockets": "Science fiction",
    "Outlaws": "Western",
    "Neighbours": "Comedy",
    "Detectives": "Crime",
    "Lovers": "Romance",
    "Ghosts": "Horror",
}
ENDINGS = ("by Night", "in a Week", "from the North", "with Friends", "the Hard Way", "on a Shoestring", "at Home")
GENRES = tuple(SUBJECTS.values())
MARKUP = "<img src=x onerror=alert(1)>"
TITLES = (MARKUP, *(f"{subject} {ending}" for ending in ENDINGS for subject in SUBJECTS))  # of the most frequent first
AGES, DEVICES = ("child", "adult"), ("phone", "television")
SCHEMA = TableSchema(
    user="user",
    item="film",
    time="time",
    label="liked",
    fields={name: FieldSchema() for name in ("film", "year", "age", "device")} | {"genres": FieldSchema(kind="multi")},
)


def genres_of(film: int) -> tuple[str, ...]:
    """The genre of its subject and, of every third film, a second one."""
    first = GENRES[(film - 1) % len(GENRES)]
    second = GENRES[(film * 5) % len(GENRES)]
    return (first,) if film % 3 or second == first else (first, second)


def film_log(users: int = 400, events_per_user: int = 30, seed: int = 3) -> InteractionLog:
    """Each user likes one genre, dislikes another one, and meets any film; a film with the genre is rarely disliked."""
    random = np.random.default_rng(seed)
    has = np.array([[genre in genres_of(film) for genre in GENRES] for film in range(len(TITLES))], dtype=float)
    taste = 1.6 * random.normal(size=(users, len(GENRES)))
    appeal = 0.7 * random.normal(size=len(TITLES))
    generosity = 0.5 * random.normal(size=users)
    often = 1.0 / np.arange(3, len(TITLES) + 3) ** 0.5
    met = [random.choice(len(TITLES), size=events_per_user, replace=False, p=often / often.sum()) for _ in range(users)]
    film, user = np.concatenate(met), np.repeat(np.arange(users), events_per_user)
    logit = appeal[film] + generosity[user] + (taste[user] * has[film]).sum(axis=1) / np.sqrt(has[film].sum(axis=1))
    age = random.integers(len(AGES), size=users)[user]
    table = pl.DataFrame(
        {
            "user": user,
            "film": film,
            "time": np.tile(np.arange(events_per_user), users),
            "year": 1970 + film % 5,
            "genres": ["|".join(genres_of(one)) for one in film],
            "age": np.array(AGES)[age],
            "device": np.array(DEVICES)[random.integers(len(DEVICES), size=len(user))],
            "liked": (random.random(len(user)) < 1 / (1 + np.exp(-logit))).astype(int),
        }
    )
    return build_log(table, SCHEMA, BuildOptions(), name="films")
