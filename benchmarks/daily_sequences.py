"""Generated days on which everything about the daily release was chosen; the real days were judged afterwards.

A setting is a population (what one day's values look like), what moves it (weekday, season, a weather that is known,
drift, chance of the day, jumps) and how many rows a day has. All are drawn from a fixed seed, and were never changed
for the sake of a number.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import sidelight as sl

FIRST = datetime.date(2021, 1, 1)


@dataclass(frozen=True)
class Days:
    """The days of a sequence, in order."""

    name: str
    values: Sequence[np.ndarray]
    features: np.ndarray
    generated: bool
    number: sl.Number  # what is declared of the values
    location: float  # guesses for the first day
    scale: float
    plausible: tuple[float, float]
    bounds: Sequence[tuple[float, float]]  # of the Uniform prior, for each level
    dates: Sequence[datetime.date] = ()


@dataclass(frozen=True)
class Setting:
    """What moves the days: typical sizes relative to the spread of one day."""

    name: str
    shape: str = "lognormal"
    rows: int = 800
    weekday: float = 0.3
    season: float = 0.3
    weather: float = 0.2
    drift: float = 0.02
    chance: float = 0.05
    jumps: float = 0.0  # how often a day
    step: float = 0.0  # to which values are rounded, of the spread
    growth: float = 0.0  # of the number of rows, in a year


SETTINGS = (
    Setting("calm", weekday=0, season=0, weather=0, drift=0, chance=0.02),
    Setting("weekdays", weekday=0.5, season=0.2, weather=0),
    Setting("weather", weather=0.5),
    Setting("drifting", weekday=0.1, drift=0.12),
    Setting("jumping", jumps=1 / 60, weekday=0.2),
    Setting("chance of the day", chance=0.3),
    Setting("heavy tails", shape="student"),
    Setting("two kinds", shape="two"),
    Setting("negative", shape="normal", weekday=0.4),
    Setting("coarse", shape="shifted", step=0.15),
    Setting("few rows", rows=150),
    Setting("many rows", rows=4000),
    Setting("growing", rows=200, growth=2.5),
    Setting("skewed delays", shape="shifted", step=0.05, chance=0.3, weather=0.4),
)


def generate(setting: Setting, *, count: int = 240, seed: int = 0) -> Days:
    """Return the days of a setting."""
    rng = np.random.default_rng([seed, sum(map(ord, setting.name))])
    of_weekday = setting.weekday * rng.standard_normal(7)
    of_weather = setting.weather * rng.standard_normal(3) / np.sqrt(3)
    wider = 0.5 * rng.standard_normal(7) * setting.weekday
    level, width, values, features, dates = 0.0, 0.0, [], [], []
    for t in range(count):
        day = FIRST + datetime.timedelta(t)
        dates.append(day)
        weather = rng.standard_normal(3)
        level += setting.drift * rng.standard_normal()
        width += 0.3 * setting.drift * rng.standard_normal()
        if rng.random() < setting.jumps:
            level += rng.choice([-1.5, 1.5]) * rng.uniform(0.5, 2)
        season = setting.season * np.sin(2 * np.pi * t / 365.25)
        moved = (
            level + season + of_weekday[day.weekday()] + weather @ of_weather + setting.chance * rng.standard_normal()
        )
        spread = np.exp(width + 0.5 * wider[day.weekday()] + 0.5 * setting.chance * rng.standard_normal())
        mean = setting.rows * np.exp(setting.growth * t / 365.25) * (1 - 0.3 * (day.weekday() >= 5))
        size = int(rng.poisson(mean * rng.lognormal(0, 0.2)))
        values.append(_values(setting, moved, spread, size, rng))
        features.append([*calendar(day), *(weather / 5).tolist()])
    lower = 0 if setting.shape in ("lognormal", "two") else None
    number = sl.Number("minutes", lower=lower, granularity=setting.step * 10 if setting.step else "0.01")
    low = 0.0 if lower == 0 else -100.0
    bounds = [(low, 50 / (1 - level)) for level in np.arange(1, 10) / 10]
    guess = (10.0, 2.0) if lower == 0 else (0.0, 5.0)
    return Days(setting.name, values, np.array(features), True, number, *guess, (low, 300.0), bounds, dates)


def _values(setting: Setting, moved: float, spread: float, size: int, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_normal(size)
    if setting.shape == "lognormal":
        found = 10 * np.exp(0.5 * moved + 0.5 * spread * noise)
    elif setting.shape == "two":
        long = rng.random(size) < 0.4
        found = np.where(long, 38 + 3 * spread * noise, rng.gamma(9, 1, size)) * np.exp(0.3 * moved)
    elif setting.shape == "student":
        found = 10 * (moved + spread * rng.standard_t(2, size))
    elif setting.shape == "shifted":
        found = -6 + 10 * moved + 10 * spread * (np.exp(1.2 * noise) - 0.7)
    else:
        found = 10 * (moved + spread * noise)
    step = setting.step * 10 or 0.01
    return np.rint(found / step) * step


def calendar(day: datetime.date) -> list[float]:
    """Return the weekday, one of seven, and the season of a day."""
    weekday = [float(day.weekday() == i) for i in range(7)]
    return [*weekday, float(np.sin(2 * np.pi * day.timetuple().tm_yday / 365.25))]
