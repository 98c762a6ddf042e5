//! The experiments of the three papers, in order of value, and how long each is (docs/decisions/0073-lengths-of-runs.md).

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its run's file, as docs/runs has it.
    pub name: &'static str,
    pub command: &'static str,
    /// Added where each has the length that decides its checks.
    whole: &'static str,
    /// … where each has two minutes at most.
    quick: &'static str,
}

impl Experiment {
    pub fn words(&self, quick: bool) -> impl Iterator<Item = &'static str> {
        let more = match quick {
            true => self.quick,
            false => self.whole,
        };
        self.command.split(' ').chain(more.split_whitespace())
    }

    /// A grid's report is its own, and its order is not drawn.
    pub fn is_grid(&self) -> bool {
        self.command.starts_with("zcp grid")
    }
}

/// As long as the experiment itself says.
const fn of(name: &'static str, command: &'static str) -> Experiment {
    lasting(name, command, "", "")
}

const fn lasting(
    name: &'static str,
    command: &'static str,
    whole: &'static str,
    quick: &'static str,
) -> Experiment {
    Experiment {
        name,
        command,
        whole,
        quick,
    }
}

/// A tenth of the grid's cells.
const FEW_CELLS: &str = "--cells 5M:1000,20M:20,20M:1000,50M:14,50M:1000,100M:100,100M:1000,150M:200,180M:500,200M:1000,220M:1000";

pub const ALL: [Experiment; 36] = [
    lasting("zcp-grid", "zcp grid", "", FEW_CELLS),
    of("ramp-size", "ramp size"),
    lasting(
        "ramp-transports",
        "ramp size --transports tcp,count,unix,memory,grpc-unary,grpc-stream",
        "--rounds 400",
        "",
    ),
    of("ramp-machines", "ramp machines"),
    lasting(
        "ramp-hundred",
        "ramp machines --time-scale 10",
        "--machines 10,40,70,100 --rounds 60",
        "--machines 40 --rounds 6",
    ),
    of("ramp-simulated", "ramp simulated"),
    of("ramp-latency", "ramp latency"),
    of("ramp-workload-a", "ramp workload a"),
    of("ramp-workload-b", "ramp workload b"),
    of("ramp-workload-c", "ramp workload c"),
    of("ramp-workload-d", "ramp workload d"),
    of("mex-messages", "mex messages"),
    lasting("mex-kv", "mex kv", "--rounds 20", ""),
    lasting(
        "mex-phase-one",
        "mex kv --phase-one per-batch --transports unix",
        "--rounds 12",
        "",
    ),
    of("mex-replicas", "mex replicas"),
    of("mex-groups", "mex groups"),
    of("mex-clients", "mex clients"),
    lasting("mex-logging", "mex logging", "--rounds 20", ""),
    of("mex-recovery", "mex recovery"),
    of("mex-move", "mex move"),
    of("mex-fill", "mex fill"),
    of("mex-controller", "mex controller"),
    of("zcp-batches", "zcp batches"),
    of("zcp-stack", "zcp stack"),
    lasting(
        "zcp-grid-raw",
        "zcp grid --client raw",
        FEW_CELLS,
        FEW_CELLS,
    ),
    of("mex-beside", "mex recovery --beside --disk lost,kept"),
    of("mex-move-kill", "mex move --kill"),
    lasting(
        "mex-phase-one-lag",
        "mex kv --phase-one per-batch --lag 5ms..38ms",
        "--rounds 6",
        "",
    ),
    of("ramp-proposers", "ramp size --proposers 2"),
    lasting(
        "ramp-machines-proposers",
        "ramp machines --proposers 2",
        "--rounds 100",
        "",
    ),
    lasting(
        "ramp-latency-hundred",
        "ramp latency --time-scale 10",
        "--machines 40,100 --rounds 20",
        "--machines 40 --rounds 6",
    ),
    of("mex-groups-apart", "mex groups --apart"),
    of(
        "ramp-workload-a-transports",
        "ramp workload a --transports tcp,unix,grpc-unary,grpc-stream",
    ),
    of(
        "ramp-workload-b-transports",
        "ramp workload b --transports tcp,unix,grpc-unary,grpc-stream",
    ),
    of(
        "ramp-workload-c-transports",
        "ramp workload c --transports tcp,unix,grpc-unary,grpc-stream",
    ),
    of(
        "ramp-workload-d-transports",
        "ramp workload d --transports tcp,unix,grpc-unary,grpc-stream",
    ),
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Lab;

    #[test]
    fn every_experiment_is_a_command() {
        for (experiment, quick) in ALL.iter().flat_map(|one| [(one, false), (one, true)]) {
            let length = quick.then_some("--quick");
            let words = ["logberg-lab"].into_iter().chain(experiment.words(quick));
            let words = words.chain(["--json"]).chain(length);
            let parsed = Lab::command().try_get_matches_from(words);
            let name = experiment.name;
            assert!(parsed.is_ok(), "{name}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn every_run_has_a_file_of_its_own() {
        let mut names: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
