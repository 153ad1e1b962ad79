"""Weekly shares of COVID patients by hospital: New York as reported, and generated states.

A gain is the average number of suspected and confirmed adult COVID patients of the week divided by staffed adult beds,
which are public. A count that was suppressed (fewer than 4 in the week) enters as 2/7; a hospital that did not report
has gain 0. Hospitals with fewer than 100 such patients in all are left out, as in the paper.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import real_data
from benchmarks.measuring import sized

FIRST, LAST = datetime.date(2020, 7, 31), datetime.date(2022, 10, 7)
FEWEST_HOSPITALS, FEWEST_PATIENTS = 80, 100
_SUPPRESSED = -999999
#: Generated states: hospitals of the paper's three, over its 148 weeks, and the code of the state in the bed counts.
_HOSPITALS = sized((24, 146, 293), (4, 5, 6))
STATES = {
    name: (short, hospitals)
    for (name, short), hospitals in zip(
        (("New Mexico", "NM"), ("Pennsylvania", "PA"), ("California", "CA")), _HOSPITALS, strict=True
    )
}
WEEKS = 148


@dataclass(frozen=True)
class State:
    """Gains and beds of a state, weeks x hospitals. Beds are public; where not reported, the hospital's fewest."""

    name: str
    data: str
    gains: np.ndarray
    beds: np.ndarray
    reported: np.ndarray

    @property
    def sensitivity(self) -> np.ndarray:
        """Δ of each week: a person leaves one hospital and joins another, √2 / beds of the smallest that reported."""
        return np.sqrt(2) / np.where(self.reported, self.beds, np.inf).min(axis=1)

    @property
    def own_sensitivity(self) -> np.ndarray:
        """√2 / beds of each hospital: with noise of its own scale each costs a person μ/√2, and a move of two μ."""
        return np.sqrt(2) / self.beds


def halves(state: State) -> tuple[State, State]:
    """Return the first and the second half of the weeks."""
    middle = len(state.gains) // 2
    first, second = (
        State(f"{state.name}, {word} half", state.data, state.gains[part], state.beds[part], state.reported[part])
        for word, part in (("first", slice(middle)), ("second", slice(middle, None)))
    )
    return first, second


def new_york() -> State:
    """Return New York's 108 weeks; a generated stand-in of the same size where the file is not."""
    folder = real_data.find("hhs_hospitals")
    if folder is None:
        return generated("New York", hospitals=159, weeks=108, seed=159)
    return _reported(folder / "ny_facility_weekly.parquet")


def generated_states() -> list[State]:
    """Return generated states of the paper's sizes, with real bed counts where there are some."""
    return [
        generated(name, hospitals=count, weeks=WEEKS, seed=count, beds=_beds(code, count))
        for name, (code, count) in STATES.items()
    ]


def generated(name: str, *, hospitals: int, weeks: int, seed: int, beds: np.ndarray | None = None) -> State:
    """Generate waves that pass through a state: every hospital has its own lag, level and share of each wave."""
    rng = np.random.default_rng(seed)
    if beds is None:
        beds = np.maximum(4.3, rng.lognormal(4.3, 1.1, hospitals))
    week = np.arange(weeks)[:, None]
    share = np.full((weeks, hospitals), 0.01)
    for centre in np.sort(rng.uniform(0, weeks, max(2, weeks // 25))):
        lag = rng.normal(0, 5, hospitals)
        height = 0.12 * rng.lognormal(0, 0.7, hospitals)
        share += height * np.exp(-0.5 * ((week - centre - lag) / rng.uniform(3, 6)) ** 2)
    patients = rng.poisson(np.minimum(share, 0.9) * beds * 7) / 7
    gains = np.clip(patients / beds, 0.0, 1.0)
    everywhere = np.ones(gains.shape, dtype=bool)
    words = f"STAND-IN: generated, {hospitals} hospitals, {weeks} weeks"
    return State(name, words, gains, np.broadcast_to(beds, gains.shape), everywhere)


def _reported(path: Path) -> State:
    stem = "total_adult_confirmed_and_suspected_covid"
    names = ("collection_week", "hospital_pk", f"{stem}_avg", f"{stem}_sum", "total_adult_inpatient_avg")
    week, hospital, patients, summed, beds = real_data.columns(path, *names)
    week = np.array([each.astype("datetime64[D]").astype(object) for each in week.astype("datetime64[D]")])
    chosen = np.array([each.weekday() == 4 and FIRST <= each <= LAST for each in week])  # Sundays are left-overs
    week, hospital, patients, summed, beds = (each[chosen] for each in (week, hospital, patients, summed, beds))
    weeks, week_place, reporting = np.unique(week, return_inverse=True, return_counts=True)
    names_of, place = np.unique(hospital.astype(str), return_inverse=True)
    total = np.bincount(place, weights=np.where(np.isfinite(summed) & (summed > 0), summed, 0.0))
    known = np.isfinite(patients) & np.isfinite(beds) & (beds > 0)
    count = np.where(patients == _SUPPRESSED, 2 / 7, patients)
    gains = np.zeros((len(weeks), len(names_of)))
    gains[week_place[known], place[known]] = np.clip(count[known] / beds[known], 0.0, 1.0)
    kept_weeks, kept = reporting >= FEWEST_HOSPITALS, total >= FEWEST_PATIENTS
    chosen_part = np.ix_(kept_weeks, kept)
    reported = np.zeros(gains.shape, dtype=bool)
    reported[week_place[known], place[known]] = True
    count_of = np.full(gains.shape, np.inf)
    count_of[week_place[known], place[known]] = beds[known]
    count_of, reported = count_of[chosen_part], reported[chosen_part]
    data = f"HHS, {kept.sum()} hospitals, {kept_weeks.sum()} weeks"
    return State("New York", data, gains[chosen_part], np.where(reported, count_of, count_of.min(axis=0)), reported)


def _beds(code: str, count: int) -> np.ndarray | None:
    folder = real_data.find("hhs_hospitals")
    if folder is None:
        return None
    names = ("state", "hospital_pk", "all_adult_hospital_inpatient_beds_7_day_avg")
    state, hospital, beds = real_data.columns(folder / "us_facility_2022_autumn.parquet", *names)
    here = (np.asarray(state).astype(str) == code) & np.isfinite(beds) & (beds >= 4)
    _, first = np.unique(np.asarray(hospital)[here].astype(str), return_index=True)
    found = beds[here][first].astype(np.float64)
    return np.sort(found)[::-1][:count] if len(found) >= count else None
