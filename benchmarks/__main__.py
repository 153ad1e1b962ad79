"""`make bench`: the quick benchmarks, each printing its table of ratios from one run."""

from benchmarks import noise_cost, quantile_accuracy, quantile_speed, ranks_cost


def main() -> None:
    """Run the quick ones in order."""
    for script in (noise_cost, ranks_cost, quantile_speed, quantile_accuracy):
        title = (script.__doc__ or script.__name__).splitlines()[0]
        print(f"\n{title}\n{'-' * len(title)}", flush=True)
        script.main()


if __name__ == "__main__":
    main()
