//! The faults, and how often they happen.

#[derive(Clone, Copy)]
pub struct Faults {
    pub drop_one_in: u64,
    pub twice_one_in: u64,
    pub delay_max: u64,
    pub crash: bool,
    pub cuts: bool,
    pub reconfigure: bool,
    pub hand_over: bool,
    /// Bytes of a bound run cannot be fetched.
    pub no_fetch: bool,
}

pub const CALM: Faults = Faults {
    drop_one_in: 0,
    twice_one_in: 0,
    delay_max: 300,
    crash: false,
    cuts: false,
    reconfigure: false,
    hand_over: false,
    no_fetch: false,
};

pub const STORM: Faults = Faults {
    drop_one_in: 12,
    twice_one_in: 10,
    delay_max: 20_000,
    crash: true,
    cuts: true,
    reconfigure: true,
    hand_over: true,
    no_fetch: true,
};
