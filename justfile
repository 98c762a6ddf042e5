# What a developer runs. None of it is needed to build: see README.md.

default: check

# Everything that must hold before a commit.
check: format lint test simulate deny

format:
    cargo fmt --all --check

lint:
    cargo clippy --workspace --all-targets -- -D warnings

test:
    cargo test --workspace

# The real node over the simulated kernel.
simulate:
    cargo run --release --bin logberg-lab -- sim --seeds 0..300 --jobs 2

# Every rule broken on purpose, one after the other: an hour, or a night with more seeds.
mutations:
    cargo run --release --features mutations --bin logberg-lab -- sim --mutations --seeds 0..2000 --jobs 2

deny:
    cargo deny check

demo:
    cargo run --release -- demo

# Every fault, for a minute; for hours: just torture 240
torture minutes="1":
    cargo run --release --bin logberg-lab -- torture --minutes {{minutes}}
