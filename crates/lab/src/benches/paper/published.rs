//! The published figures of Zero-copy Paxos: tables 1 to 5, and what its text says of CPU.
//!
//! Source: D. C. Turner, "Zero-copy Paxos", 15 September 2017. Two i3.large machines of AWS in one
//! placement group, a third node left disconnected as an auxiliary, the client beside the leader;
//! each run 15 s of warm-up and 45 s measured. Latency there is of selected round trips, one after the
//! other; ours is of all writes (of small ones one in each 1024 bytes), from when each was due.

/// The rates of the rows, in MB/s.
pub const RATES_MB: [u64; 16] = [
    5, 10, 20, 50, 100, 120, 130, 140, 150, 160, 170, 180, 190, 200, 210, 220,
];
/// The sizes of the columns, in bytes.
pub const WRITE_BYTES: [u64; 8] = [1, 14, 20, 50, 100, 200, 500, 1000];

/// Seconds of each run.
pub const WARM_UP_S: f64 = 15.0;
pub const MEASURED_S: f64 = 45.0;

/// The CPU figures were published as a plot; this is what the text says of it.
pub const CPU: &str = "Published of CPU: user time trivial in all runs on both nodes; system time under \
                       50 % of a core on both until 180 MB/s, and a spike above.";

type Table = [[Option<f64>; WRITE_BYTES.len()]; RATES_MB.len()];

/// A cell that was not measured.
const NONE: Option<f64> = None;

const fn of(value: f64) -> Option<f64> {
    Some(value)
}

/// One cell of every table.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Published {
    pub delivered: f64,
    pub writes_mhz: f64,
    pub batch_bytes: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
}

/// Returns `None` for what was not measured there.
pub fn at(rate_mb: u64, write_bytes: u64) -> Option<Published> {
    let row = RATES_MB.iter().position(|rate| *rate == rate_mb)?;
    let column = WRITE_BYTES.iter().position(|bytes| *bytes == write_bytes)?;
    Some(Published {
        delivered: DELIVERED[row][column]?,
        writes_mhz: WRITES_MHZ[row][column]?,
        batch_bytes: BATCH_BYTES[row][column]?,
        median_ms: MEDIAN_MS[row][column]?,
        p99_ms: P99_MS[row][column]?,
    })
}

/// Table 1: which part of the target rate was delivered.
#[allow(clippy::approx_constant, reason = "0.318 was measured")]
#[rustfmt::skip]
const DELIVERED: Table = [
    [of(0.242), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000)],
    [of(0.127), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000)],
    [of(0.111), of(0.901), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000)],
    [NONE, of(0.318), of(0.528), of(1.000), of(1.000), of(1.000), of(1.000), of(1.000)],
    [NONE, NONE, of(0.269), of(0.695), of(1.000), of(1.000), of(1.000), of(1.000)],
    [NONE, NONE, NONE, of(0.540), of(1.000), of(1.000), of(1.000), of(1.000)],
    [NONE, NONE, NONE, of(0.531), of(0.845), of(1.000), of(1.000), of(1.000)],
    [NONE, NONE, NONE, of(0.434), of(0.791), of(1.000), of(1.000), of(1.000)],
    [NONE, NONE, NONE, of(0.462), of(0.906), of(1.000), of(1.000), of(1.000)],
    [NONE, NONE, NONE, of(0.419), of(0.854), of(1.000), of(0.997), of(0.999)],
    [NONE, NONE, NONE, of(0.381), of(0.683), of(0.985), of(0.999), of(1.002)],
    [NONE, NONE, NONE, of(0.338), of(0.605), of(0.989), of(1.000), of(1.000)],
    [NONE, NONE, NONE, of(0.357), of(0.719), of(0.888), of(0.999), of(0.990)],
    [NONE, NONE, NONE, of(0.304), of(0.568), of(0.920), of(0.988), of(0.991)],
    [NONE, NONE, NONE, of(0.306), of(0.552), of(0.862), of(0.940), of(0.942)],
    [NONE, NONE, NONE, of(0.313), of(0.607), of(0.798), of(0.898), of(0.900)],
];

/// Table 2: writes acknowledged, in millions per second.
#[rustfmt::skip]
const WRITES_MHZ: Table = [
    [of(1.211), of(0.357), of(0.250), of(0.100), of(0.050), of(0.025), of(0.010), of(0.005)],
    [of(1.265), of(0.714), of(0.500), of(0.200), of(0.100), of(0.050), of(0.020), of(0.010)],
    [of(2.218), of(1.288), of(1.000), of(0.400), of(0.200), of(0.100), of(0.040), of(0.020)],
    [NONE, of(1.136), of(1.320), of(1.000), of(0.500), of(0.250), of(0.100), of(0.050)],
    [NONE, NONE, of(1.346), of(1.389), of(1.000), of(0.500), of(0.200), of(0.100)],
    [NONE, NONE, NONE, of(1.296), of(1.200), of(0.600), of(0.240), of(0.120)],
    [NONE, NONE, NONE, of(1.381), of(1.098), of(0.650), of(0.260), of(0.130)],
    [NONE, NONE, NONE, of(1.217), of(1.107), of(0.700), of(0.280), of(0.140)],
    [NONE, NONE, NONE, of(1.386), of(1.359), of(0.750), of(0.300), of(0.150)],
    [NONE, NONE, NONE, of(1.342), of(1.367), of(0.800), of(0.319), of(0.160)],
    [NONE, NONE, NONE, of(1.296), of(1.161), of(0.837), of(0.340), of(0.170)],
    [NONE, NONE, NONE, of(1.216), of(1.089), of(0.890), of(0.360), of(0.180)],
    [NONE, NONE, NONE, of(1.355), of(1.367), of(0.844), of(0.380), of(0.188)],
    [NONE, NONE, NONE, of(1.215), of(1.135), of(0.920), of(0.395), of(0.198)],
    [NONE, NONE, NONE, of(1.287), of(1.158), of(0.905), of(0.395), of(0.198)],
    [NONE, NONE, NONE, of(1.378), of(1.335), of(0.877), of(0.395), of(0.198)],
];

/// Table 3: mean acknowledged batch, in bytes.
#[rustfmt::skip]
const BATCH_BYTES: Table = [
    [of(283.0), of(32057.0), of(2043.0), of(33972.0), of(5358.0), of(30397.0), of(10984.0), of(30707.0)],
    [of(304.0), of(21981.0), of(3837.0), of(22658.0), of(6176.0), of(22591.0), of(22505.0), of(21554.0)],
    [of(30989.0), of(5014.0), of(5360.0), of(5457.0), of(5423.0), of(5467.0), of(5446.0), of(5364.0)],
    [NONE, of(4356.0), of(7324.0), of(15197.0), of(14403.0), of(13549.0), of(14642.0), of(14790.0)],
    [NONE, NONE, of(7587.0), of(22488.0), of(33857.0), of(29587.0), of(28084.0), of(29630.0)],
    [NONE, NONE, NONE, of(19238.0), of(36484.0), of(37479.0), of(36974.0), of(37047.0)],
    [NONE, NONE, NONE, of(21885.0), of(31315.0), of(45462.0), of(45243.0), of(45486.0)],
    [NONE, NONE, NONE, of(17772.0), of(31755.0), of(57795.0), of(57278.0), of(57053.0)],
    [NONE, NONE, NONE, of(22899.0), of(51768.0), of(73525.0), of(73432.0), of(73582.0)],
    [NONE, NONE, NONE, of(20609.0), of(52795.0), of(98218.0), of(103453.0), of(98354.0)],
    [NONE, NONE, NONE, of(18697.0), of(35880.0), of(130114.0), of(184428.0), of(141025.0)],
    [NONE, NONE, NONE, of(17147.0), of(31027.0), of(196886.0), of(293882.0), of(258483.0)],
    [NONE, NONE, NONE, of(20501.0), of(52749.0), of(149782.0), of(1042408.0), of(2522109.0)],
    [NONE, NONE, NONE, of(16841.0), of(33530.0), of(238816.0), of(2480956.0), of(2612452.0)],
    [NONE, NONE, NONE, of(19158.0), of(35705.0), of(249076.0), of(2455871.0), of(2510222.0)],
    [NONE, NONE, NONE, of(22414.0), of(49161.0), of(162778.0), of(2032740.0), of(2387092.0)],
];

/// Table 4: median latency, in milliseconds.
#[rustfmt::skip]
const MEDIAN_MS: Table = [
    [of(0.695), of(14.100), of(0.768), of(14.100), of(0.715), of(14.120), of(0.768), of(14.152)],
    [of(0.715), of(7.480), of(0.807), of(7.521), of(0.803), of(7.514), of(7.465), of(7.410)],
    [of(30.264), of(0.826), of(1.066), of(0.815), of(1.087), of(0.813), of(1.081), of(1.049)],
    [NONE, of(0.806), of(1.100), of(1.196), of(1.174), of(1.175), of(1.156), of(1.171)],
    [NONE, NONE, of(0.926), of(1.301), of(1.398), of(1.384), of(1.318), of(1.383)],
    [NONE, NONE, NONE, of(1.256), of(1.612), of(1.520), of(1.507), of(1.476)],
    [NONE, NONE, NONE, of(1.297), of(1.197), of(1.455), of(1.569), of(1.514)],
    [NONE, NONE, NONE, of(1.223), of(1.185), of(1.484), of(1.704), of(1.670)],
    [NONE, NONE, NONE, of(1.293), of(1.758), of(3.454), of(2.206), of(1.758)],
    [NONE, NONE, NONE, of(1.270), of(1.727), of(1.666), of(1.574), of(1.690)],
    [NONE, NONE, NONE, of(1.279), of(1.200), of(19.407), of(1.638), of(1.693)],
    [NONE, NONE, NONE, of(1.013), of(1.392), of(15.176), of(2.787), of(6.501)],
    [NONE, NONE, NONE, of(1.269), of(1.737), of(14.695), of(1168.133), of(1007.121)],
    [NONE, NONE, NONE, of(1.014), of(1.342), of(14.791), of(1414.131), of(1344.016)],
    [NONE, NONE, NONE, of(1.248), of(1.239), of(30.966), of(1342.250), of(1354.383)],
    [NONE, NONE, NONE, of(1.280), of(1.717), of(13.732), of(1274.763), of(1474.827)],
];

/// Table 5: 99th percentile of latency, in milliseconds.
#[rustfmt::skip]
const P99_MS: Table = [
    [of(0.819), of(14.453), of(14.315), of(14.459), of(14.356), of(14.487), of(14.350), of(14.474)],
    [of(0.825), of(7.901), of(7.838), of(7.926), of(7.872), of(7.913), of(7.877), of(7.845)],
    [of(30.728), of(1.103), of(1.151), of(1.100), of(1.154), of(1.116), of(1.141), of(1.135)],
    [NONE, of(1.147), of(1.375), of(1.364), of(1.479), of(1.567), of(1.790), of(1.473)],
    [NONE, NONE, of(1.200), of(1.700), of(2.597), of(3.261), of(3.290), of(2.780)],
    [NONE, NONE, NONE, of(1.655), of(4.282), of(4.211), of(4.173), of(4.191)],
    [NONE, NONE, NONE, of(1.703), of(2.511), of(6.934), of(4.701), of(6.870)],
    [NONE, NONE, NONE, of(2.002), of(3.695), of(6.679), of(8.116), of(7.721)],
    [NONE, NONE, NONE, of(1.659), of(7.590), of(201.785), of(43.169), of(9.521)],
    [NONE, NONE, NONE, of(1.670), of(8.041), of(310.004), of(118.702), of(329.858)],
    [NONE, NONE, NONE, of(1.755), of(3.873), of(993.406), of(352.713), of(551.989)],
    [NONE, NONE, NONE, of(1.398), of(3.758), of(1128.342), of(670.293), of(687.638)],
    [NONE, NONE, NONE, of(1.953), of(7.619), of(665.866), of(1687.889), of(1697.058)],
    [NONE, NONE, NONE, of(1.648), of(4.163), of(1534.855), of(1706.051), of(1737.592)],
    [NONE, NONE, NONE, of(1.736), of(3.919), of(1078.736), of(1699.089), of(1747.118)],
    [NONE, NONE, NONE, of(1.728), of(7.450), of(950.298), of(1735.124), of(1719.195)],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_each_other() {
        let mut cells = 0;
        for rate in RATES_MB {
            for bytes in WRITE_BYTES {
                let Some(cell) = at(rate, bytes) else {
                    continue;
                };
                cells += 1;
                // Table 2 follows from table 1.
                let mhz = cell.delivered * rate as f64 / bytes as f64;
                let close = (mhz - cell.writes_mhz).abs() < 0.012 * mhz + 0.0011;
                assert!(
                    close,
                    "{rate} MB/s, {bytes} B: {mhz} is not {}",
                    cell.writes_mhz
                );
                assert!(cell.median_ms <= cell.p99_ms, "{rate} MB/s, {bytes} B");
            }
        }
        assert_eq!(cells, 92);
        assert_eq!(at(50, 1), None);
        assert_eq!(at(7, 1000), None);
    }
}
