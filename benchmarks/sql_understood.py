"""How many statements that analysts write are understood: a list of our own, by construct, prepared without any row.

The proportions of constructs are those that test suites of other systems have: ORDER BY, joins, arithmetic on
aggregates, counts of persons, groups that SELECT leaves out and LIMIT most often. Some ask what no private system
should answer (rows, extremes, windows); they are part of the list.
"""

from __future__ import annotations

import sys

import sidelight as sl
from sidelight.errors import SidelightError

SCHEMA = sl.Schema(
    [
        sl.PersonId("pid", max_rows=4),
        sl.Category("job", ["clerk", "cook", "nurse"], other=None),
        sl.Category("sex", ["F", "M"], other=None),
        sl.Category("region", ["N", "S", "E", "W"], other=None),
        sl.Number("age", lower=0, upper=110, granularity=1),
        sl.Number("income", lower=0, upper=200_000),
        sl.Number("hours", lower=0, upper=80, granularity="0.5"),
        sl.Date("day", start="2022-01-01", end="2024-12-31"),
        sl.Date("at", start="2024-01-01", end="2024-03-31", unit="hour"),
    ]
)
#: Statements by dialect.
STATEMENTS: dict[str, list[str]] = {
    "duckdb": """
SELECT COUNT(*) FROM people
SELECT COUNT(*) AS n FROM clinic.people
SELECT COUNT(pid) FROM people
SELECT COUNT(DISTINCT pid) FROM people
SELECT COUNT(DISTINCT pid) AS persons, COUNT(*) AS visits FROM people
SELECT COUNT(pid) AS n FROM people WHERE age > 60
SELECT job, COUNT(pid) FROM people GROUP BY job
SELECT job, COUNT(DISTINCT pid) AS n FROM people GROUP BY job ORDER BY n DESC
SELECT sex, COUNT(pid) AS n FROM people GROUP BY sex ORDER BY sex
SELECT region, COUNT(DISTINCT pid) FROM people GROUP BY region HAVING COUNT(DISTINCT pid) > 20
SELECT COUNT(DISTINCT CASE WHEN age >= 65 THEN pid END) FROM people
SELECT COUNT(income) FROM people
SELECT COUNT(DISTINCT job) FROM people
SELECT job, COUNT(*) AS n FROM people GROUP BY job ORDER BY n DESC
SELECT job, COUNT(*) FROM people GROUP BY job ORDER BY COUNT(*) DESC
SELECT job, COUNT(*) FROM people GROUP BY job ORDER BY 2 DESC, 1
SELECT job, sex, AVG(income) AS pay FROM people GROUP BY job, sex ORDER BY job, sex
SELECT job, AVG(income) FROM people GROUP BY job ORDER BY AVG(age)
SELECT job, SUM(hours) AS total FROM people GROUP BY job ORDER BY total DESC NULLS LAST
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n DESC LIMIT 2
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n LIMIT 2 OFFSET 1
SELECT job, COUNT(*) FROM people GROUP BY job LIMIT 1
SELECT people.job, COUNT(*) FROM people GROUP BY people.job ORDER BY people.job
SELECT p.job, AVG(p.income) AS pay FROM people AS p WHERE p.age >= 18 GROUP BY p.job ORDER BY pay DESC
SELECT "job", COUNT(*) AS "how many" FROM people GROUP BY "job" ORDER BY "how many"
SELECT 1 + SUM(hours) FROM people
SELECT SUM(income) / SUM(hours) AS wage FROM people
SELECT job, SUM(income) / COUNT(*) AS pay FROM people GROUP BY job
SELECT job, 100.0 * COUNT(*) / 5000 AS share FROM people GROUP BY job
SELECT job, ROUND(AVG(income), 2) AS pay FROM people GROUP BY job
SELECT job, AVG(income) * 12 AS yearly FROM people GROUP BY job
SELECT AVG(income) - 2 * STDDEV(income) AS low FROM people
SELECT SUM(hours) - SUM(age) AS d, ABS(SUM(hours) - SUM(age)) AS e FROM people
SELECT SUM(income) / NULLIF(SUM(hours), 0) AS wage FROM people GROUP BY sex
SELECT COALESCE(SUM(hours), 0) AS h, GREATEST(AVG(age), 18) AS a, LEAST(AVG(age), 65) AS b FROM people
SELECT job, CASE WHEN COUNT(*) > 100 THEN 'large' ELSE 'small' END AS size FROM people GROUP BY job
SELECT COUNT(*) FILTER (WHERE sex = 'F') * 1.0 / COUNT(*) AS share FROM people
SELECT job, CAST(SUM(hours) AS DOUBLE) / COUNT(*) AS mean FROM people GROUP BY job
SELECT SQRT(VAR_SAMP(income)) AS sd FROM people
SELECT COUNT(*) FROM people GROUP BY job
SELECT AVG(income) FROM people GROUP BY job, sex
SELECT AVG(income) AS pay FROM people GROUP BY sex ORDER BY pay
SELECT job, COUNT(*) FROM people GROUP BY job, sex
SELECT SUM(hours) FROM people GROUP BY region ORDER BY region
SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 50
SELECT job, AVG(income) AS pay FROM people GROUP BY job HAVING pay > 50 AND AVG(age) < 60
SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING n BETWEEN 10 AND 500
SELECT job FROM people GROUP BY job HAVING SUM(hours) > 100
SELECT DISTINCT job, COUNT(*) FROM people GROUP BY job
SELECT DISTINCT COUNT(*) > 100 AS large FROM people GROUP BY job
SELECT DISTINCT job FROM people
WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT job, COUNT(*) FROM adults GROUP BY job
WITH t AS (SELECT job, COUNT(*) AS n FROM people GROUP BY job) SELECT * FROM t WHERE n > 10 ORDER BY n DESC
SELECT job, n FROM (SELECT job, COUNT(*) AS n FROM people GROUP BY job) AS x ORDER BY n
SELECT COUNT(*) FROM (SELECT age, job FROM people WHERE sex = 'F') AS women WHERE age > 30
SELECT AVG(n) FROM (SELECT job, COUNT(*) AS n FROM people GROUP BY job) AS x
SELECT VAR_SAMP(income), VAR_POP(income) FROM people
SELECT VARIANCE(age), STDDEV(age), STDDEV_SAMP(age), STDDEV_POP(age) FROM people
SELECT job, STDDEV_POP(hours) AS sd FROM people GROUP BY job
SELECT MEDIAN(income) FROM people
SELECT job, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY income) AS p90 FROM people GROUP BY job
SELECT QUANTILE(income, 0.25), QUANTILE_CONT(income, 0.75), APPROX_QUANTILE(income, 0.5) FROM people
SELECT MEDIAN(income) FILTER (WHERE sex = 'F') AS women, MEDIAN(income) AS everybody FROM people
SELECT SUM(CASE WHEN age >= 65 THEN 1 ELSE 0 END) AS old, COUNT(*) AS n FROM people
SELECT job, SUM(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS women FROM people GROUP BY job
SELECT AVG(CASE WHEN sex = 'F' THEN 1.0 ELSE 0.0 END) AS women FROM people
SELECT AVG(CASE WHEN sex = 'F' THEN income END) AS women FROM people
SELECT SUM(CASE WHEN region IN ('N', 'S') THEN hours ELSE 0 END) AS ns FROM people
SELECT COUNT(*) FILTER (WHERE age < 18) AS young, AVG(income) FILTER (WHERE age >= 18) AS pay FROM people
SELECT COUNT(CASE WHEN hours > 40 THEN 1 END) FROM people
SELECT EXTRACT(year FROM day) AS y, COUNT(*) FROM people GROUP BY y ORDER BY y
SELECT DATE_TRUNC('month', day) AS m, AVG(hours) FROM people GROUP BY 1 ORDER BY 1
SELECT year(day) AS y, quarter(day) AS q, COUNT(*) FROM people GROUP BY ALL ORDER BY ALL
SELECT dayofweek(day) AS d, COUNT(*) FROM people GROUP BY d
SELECT hour(at) AS h, COUNT(*) FROM people GROUP BY h ORDER BY h
SELECT COUNT(*) FROM people WHERE day BETWEEN DATE '2023-01-01' AND DATE '2023-12-31'
SELECT COUNT(*) FROM people WHERE EXTRACT(month FROM day) = 12
SELECT COUNT(*) FROM people WHERE age BETWEEN 18 AND 64 AND job IN ('cook', 'nurse')
SELECT COUNT(*) FROM people WHERE job LIKE 'c%' OR job IS NULL
SELECT COUNT(*) FROM people WHERE job NOT LIKE '%k' AND UPPER(sex) = 'F'
SELECT job || '/' || sex AS k, COUNT(*) FROM people GROUP BY job, sex
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS k, COUNT(*) FROM people GROUP BY k
SELECT CASE WHEN age < 18 THEN 0 ELSE 1 END AS adult, AVG(income) FROM people GROUP BY 1 ORDER BY 1
SELECT CASE job WHEN 'cook' THEN 'kitchen' ELSE 'other' END AS k, COUNT(*) FROM people GROUP BY k
SELECT age >= 18 AS adult, COUNT(*) FROM people GROUP BY adult
SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY age
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM people GROUP BY decade ORDER BY decade
SELECT job, sex, COUNT(*) FROM people GROUP BY ROLLUP (job, sex)
SELECT job, sex, COUNT(*) FROM people GROUP BY CUBE (job, sex) ORDER BY job, sex
SELECT job, sex, COUNT(*), GROUPING(sex) AS g FROM people GROUP BY GROUPING SETS ((job, sex), (job), ())
SELECT job, AVG(income) FROM people GROUP BY ROLLUP (job)
SELECT COUNT(*) FROM people WHERE 1 = 1 AND sex = 'M'
SELECT AVG(sex = 'F') FROM people
SELECT SUM(age * hours) FROM people
SELECT p.job, COUNT(*) FROM people p JOIN pay q ON p.pid = q.pid GROUP BY p.job
SELECT COUNT(*) FROM people, pay WHERE people.pid = pay.pid
SELECT q.kind, AVG(p.income) FROM people p LEFT JOIN visits q ON p.pid = q.pid GROUP BY q.kind
SELECT COUNT(DISTINCT p.pid) FROM people p INNER JOIN visits v USING (pid) WHERE v.kind = 'day'
SELECT a.job, COUNT(*) FROM people a JOIN people b ON a.region = b.region GROUP BY a.job
SELECT SUM(v.cost) FROM visits v JOIN people p ON v.pid = p.pid WHERE p.age > 60
SELECT COUNT(*) FROM people NATURAL JOIN visits
SELECT MAX(income), MIN(income) FROM people
SELECT * FROM people
SELECT job, COUNT(*) OVER () FROM people
SELECT pid, SUM(hours) FROM people GROUP BY pid
SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people)
""".strip().splitlines(),
    "postgresql": """
SELECT job, COUNT(*)::float / 100 AS share FROM public.people GROUP BY job ORDER BY share DESC
SELECT date_part('year', day) AS y, COUNT(*) FROM people GROUP BY y
SELECT job, ROUND(AVG(income)::numeric, 2) AS pay FROM people GROUP BY job FETCH FIRST 2 ROWS ONLY
SELECT COUNT(*) / 2 AS half FROM people
SELECT job, percentile_cont(0.5) WITHIN GROUP (ORDER BY income DESC) FROM people GROUP BY job
SELECT date_trunc('quarter', day) AS q, SUM(hours) FROM people GROUP BY q HAVING COUNT(*) > 5
""".strip().splitlines(),
    "bigquery": """
SELECT job, COUNTIF(age >= 65) AS old FROM `project.clinic.people` GROUP BY job ORDER BY old DESC LIMIT 2
SELECT SAFE_DIVIDE(SUM(income), SUM(hours)) AS wage FROM people
SELECT APPROX_QUANTILES(income, 100)[OFFSET(50)] AS half FROM people
SELECT DATE_TRUNC(day, MONTH) AS m, COUNT(*) FROM people GROUP BY m
SELECT IF(age < 18, 'child', 'adult') AS band, COUNT(*) FROM people GROUP BY band
""".strip().splitlines(),
    "snowflake": """
SELECT job, COUNT_IF(sex = 'F') AS women FROM db.clinic.people GROUP BY job
SELECT YEAR(day) AS y, AVG(income) FROM people GROUP BY y ORDER BY y
SELECT IFF(COUNT(*) > 10, AVG(income), NULL) AS pay FROM people
SELECT VARIANCE_POP(age), MEDIAN(age) FROM people
SELECT DAYOFWEEKISO(day) AS d, COUNT(*) FROM people GROUP BY d
""".strip().splitlines(),
    "spark": """
SELECT job, percentile(income, 0.5) AS half FROM people GROUP BY job
SELECT month(day) AS m, count(*) AS n FROM people GROUP BY month(day) ORDER BY n DESC LIMIT 3
SELECT std(income) AS sd FROM people
SELECT `job`, nvl(SUM(hours), 0) AS h FROM people GROUP BY `job`
""".strip().splitlines(),
    "tsql": """
SELECT TOP 2 job, COUNT(*) AS n FROM dbo.people GROUP BY job ORDER BY n DESC
SELECT [job], AVG(income) AS pay FROM [dbo].[people] GROUP BY [job]
SELECT VAR(income), VARP(income), STDEV(income), STDEVP(income) FROM people
SELECT SUM(IIF(age >= 65, 1, 0)) AS old FROM people
SELECT YEAR(day) AS y, DATEPART(month, day) AS m, COUNT_BIG(*) AS n FROM people GROUP BY YEAR(day), DATEPART(month, day)
SELECT job, sex, COUNT(*) AS n FROM people GROUP BY job, sex WITH ROLLUP
""".strip().splitlines(),
}


def refused() -> list[tuple[str, str, str]]:
    """Return dialect, statement and message of what is not understood."""
    found = []
    for dialect, statements in STATEMENTS.items():
        for statement in statements:
            try:
                sl.SQL(statement, epsilon=1, max_groups=1, dialect=dialect).prepare(SCHEMA)  # type: ignore[arg-type]
            except SidelightError as error:
                found.append((dialect, statement, str(error)))
    return found


def measure() -> dict[str, float]:
    """Return the share of statements that are understood, and how many there are."""
    count = sum(map(len, STATEMENTS.values()))
    missed = refused()
    for dialect, statement, message in missed:
        print(f"{dialect}: {statement}\n    {message}", file=sys.stderr)
    return {"understood": 1 - len(missed) / count, "statements": count}


if __name__ == "__main__":
    print(measure())
