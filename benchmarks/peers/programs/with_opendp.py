"""OpenDP: a context over Polars for counts, means and marginals, constructors for quantiles, its scikit-learn part.

The labels of groups are joined (`with_keys`): the other way to say that they are public, `invariant="keys"`, gives
away which groups have no rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main, pairs_in, pairs_of

#: Of the tree of counts under quantiles; as in the library's own example.
LEAVES, BRANCHING = 4096, 16


def counts(job: Job) -> Callable[[Data], Any]:
    """Counts by group in a context; the labels are public."""
    import opendp.prelude as dp

    def release(data: Data) -> np.ndarray:
        context = _context({"group": data["group"].astype(np.int64)}, job, by={("group",): job["groups"]})
        query = context.query().group_by("group").agg(dp.len().alias("value"))
        found = query.with_keys(_keys(group=job["groups"])).release().collect()
        return _in_order(found, job["groups"], missing=0.0)

    dp.enable_features("contrib")
    return release


def means(job: Job) -> Callable[[Data], Any]:
    """Means by group in a context: a noisy sum over a noisy count, which share the budget."""
    import opendp.prelude as dp
    import polars as pl

    lower, upper = map(float, job["bounds"])

    def release(data: Data) -> np.ndarray:
        columns = {"group": data["group"].astype(np.int64), "x": data["x"]}
        context = _context(columns, job, by={("group",): job["groups"]})
        mean = pl.col("x").fill_nan(0.0).fill_null(0.0).dp.mean((lower, upper)).alias("value")
        query = context.query().group_by("group").agg(mean)
        found = query.with_keys(_keys(group=job["groups"])).release().collect()
        return np.clip(_in_order(found, job["groups"], missing=(lower + upper) / 2), lower, upper)

    dp.enable_features("contrib")
    return release


def _context(columns: dict[str, np.ndarray], job: Job, *, by: dict[tuple[str, ...], int]) -> Any:
    """Return a context over rows, with public bounds on the numbers of rows and labels."""
    import opendp.prelude as dp
    import polars as pl

    return dp.Context.compositor(
        data=pl.LazyFrame(columns),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=float(job["epsilon"])),
        split_evenly_over=len(by),
        margins=[
            dp.polars.Margin(max_length=job["rows_at_most"]),
            *(
                dp.polars.Margin(by=list(keys), max_length=job["rows_at_most"], max_groups=groups)
                for keys, groups in by.items()
            ),
        ],
    )


def _keys(**sizes: int) -> Any:
    """Return all labels of columns, numbered from 0, in a frame."""
    import polars as pl

    found = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    return pl.LazyFrame(dict(zip(sizes, found, strict=True)))


def _in_order(found: Any, groups: int, *, missing: float) -> np.ndarray:
    values = np.full(groups, missing)
    values[found["group"].to_numpy()] = found["value"].to_numpy()
    return np.where(np.isfinite(values), values, missing)


def quantiles(job: Job) -> Callable[[Data], Any]:
    """A tree of counts with Laplace noise, made consistent, assembled from the library's constructors."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    edges = job.get("edges") or np.linspace(*job["bounds"], LEAVES + 1).tolist()
    leaves = len(edges) - 1
    tree = (
        (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance())
        >> dp.t.then_find_bin(edges[1:-1])
        >> dp.t.then_count_by_categories(categories=list(range(leaves)), null_category=False)
        >> dp.t.then_b_ary_tree(leaf_count=leaves, branching_factor=BRANCHING)
    )
    noisy = dp.binary_search_chain(lambda scale: tree >> dp.m.then_laplace(scale), d_in=1, d_out=float(job["epsilon"]))
    consistent = dp.t.make_consistent_b_ary_tree(BRANCHING)
    read = dp.t.make_quantiles_from_counts(edges, job["levels"])
    return lambda data: read(consistent(noisy(data["x"])))


def covariance(job: Job) -> Callable[[Data], Any]:
    """The library's PCA, which also pays for a mean; its number of rows is public."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious", "floating-point")
    from opendp.extras.sklearn.decomposition import PCA

    def release(data: Data) -> np.ndarray:
        rows = data["rows"]
        model = PCA(
            epsilon=float(job["epsilon"]), row_norm=job["radius"], n_samples=len(rows), n_features=rows.shape[1]
        )
        model.fit(rows)
        return np.asarray((model.components_.T * model.explained_variance_) @ model.components_)

    return release


def linear(job: Job) -> Callable[[Data], Any]:
    """Theil and Sen's line through one predictor; predictions for the test rows."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    (lower,), (upper,) = job["row_bounds"]

    def model(scale: float) -> Any:
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), x_bounds=[(lower, upper)], y_bounds=tuple(job["target_range"]), scale=scale
        )

    scale = dp.binary_search(lambda s: model(s).measurement.map(1) <= job["epsilon"], bounds=(1e-3, 1e6))
    fitting = model(scale)
    return lambda data: fitting.fit(data["rows"], data["target"]).predict(data["test_rows"])


def marginals(job: Job) -> Callable[[Data], Any]:
    """Counts of every pair of columns in a context, with an equal share of the budget each."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    sizes = job["sizes"]
    by = {(f"c{first}", f"c{second}"): sizes[first] * sizes[second] for first, second in pairs_of(sizes)}

    def release(data: Data) -> np.ndarray:
        columns = {f"c{place}": data["rows"][:, place].astype(np.int64) for place in range(len(sizes))}
        context = _context(columns, job, by=by)
        tables = []
        for (first, second), keys in zip(pairs_of(sizes), by, strict=True):
            query = context.query().group_by(*keys).agg(dp.len().alias("value"))
            labels = _keys(**dict(zip(keys, (sizes[first], sizes[second]), strict=True)))
            found = query.with_keys(labels).release().collect()
            table = np.zeros((sizes[first], sizes[second]))
            table[found[keys[0]].to_numpy(), found[keys[1]].to_numpy()] = found["value"].to_numpy()
            tables.append(np.maximum(table.ravel(), 0))
        return np.concatenate(tables)

    return release


def aim(job: Job) -> Callable[[Data], Any]:
    """Rows of AIM with its defaults, all pairs its workload; rows with a value that it invented are left out.

    A job may limit the size of its model, in megabytes: AIM's own setting, 80 if left out.
    """
    import opendp.prelude as dp

    _project_without_compiling()
    return _synthetic(job, lambda: dp.mbi.AIM(queries=2, max_size=float(job.get("megabytes", 80))))


def _project_without_compiling() -> None:
    """Let mbi eliminate variables in NumPy: the same numbers, without compiling for each of 45 pairs in each round."""
    import jax.numpy as jnp  # type: ignore[import-not-found]
    from mbi import Factor, junction_tree, marginal_oracles  # type: ignore[import-not-found]

    def eliminated(potentials: Any, clique: tuple[str, ...], total: float = 1, *_: Any) -> Any:
        domain = potentials.active_domain
        factors = [(each.domain.attributes, np.asarray(each.values, float)) for each in potentials.arrays.values()]
        cliques = [*(names for names, _ in factors), clique]
        order, _ = junction_tree.greedy_order(domain, cliques, elim=domain.invert(clique))
        for name in order:
            names, values = _added([each for each in factors if name in each[0]])
            axis = names.index(name)
            most = values.max(axis=axis, keepdims=True)
            values = np.log(np.exp(values - most).sum(axis=axis)) + most.squeeze(axis)
            factors = [each for each in factors if name not in each[0]]
            factors.append((names[:axis] + names[axis + 1 :], values))
        wanted = potentials.domain.project(clique)
        none = (wanted.attributes, np.zeros(wanted.shape))
        names, values = _added([none, *factors])
        mass = np.exp(values - values.max())
        return Factor(wanted, jnp.asarray(mass * (float(total) / mass.sum())))

    marginal_oracles.variable_elimination = eliminated


def _added(factors: list[tuple[tuple[str, ...], np.ndarray]]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the sum of arrays with named axes, over all of their axes in order of appearance."""
    names = tuple(dict.fromkeys(name for each, _ in factors for name in each))
    whole = 0.0
    for each, values in factors:
        inner = values.transpose([each.index(name) for name in names if name in each])
        shape = iter(inner.shape)
        whole = whole + inner.reshape([next(shape) if name in each else 1 for name in names])
    return names, np.asarray(whole)


def mst(job: Job) -> Callable[[Data], Any]:
    """Rows of MST with its defaults."""
    import opendp.prelude as dp

    return _synthetic(job, dp.mbi.MST)


def _synthetic(job: Job, algorithm: Callable[[], Any]) -> Callable[[Data], np.ndarray]:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    sizes = job["sizes"]
    names = [f"c{place}" for place in range(len(sizes))]

    def release(data: Data) -> np.ndarray:
        rows = data["rows"]
        context = dp.Context.compositor(
            data=pl.DataFrame(rows.astype(np.int64), schema=names).lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=job["rho"]),
        )
        keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
        query = context.query(rho=job["rho"]).select(*names)
        made = query.contingency_table(keys=keys, algorithm=algorithm()).release().synthesize(rows=len(rows))
        return np.asarray(made.select(names).drop_nulls().to_numpy().astype(np.int64))

    return release


def marginals_of_aim(job: Job) -> Callable[[Data], Any]:
    """Counts of all pairs in AIM's rows."""
    return pairs_in(aim(job), job)


def marginals_of_mst(job: Job) -> Callable[[Data], Any]:
    """Counts of all pairs in MST's rows."""
    return pairs_in(mst(job), job)


if __name__ == "__main__":
    methods = (counts, means, quantiles, covariance, linear, marginals, aim, mst, marginals_of_aim, marginals_of_mst)
    main("opendp", {method.__name__: method for method in methods})
