//! Measures how long it takes to cut a batch of small frames: 256 KiB that came at once, of 72 bytes a frame.
//!
//! ```text
//! cargo run --release -p commands --example decode
//! ```

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::Instant;

use commands::Decoder;

const BATCH_BYTES: usize = 256 << 10;
const COMMAND_BYTES: usize = 64;
const ROUNDS: usize = 200;

fn main() {
    let frame = commands::encode(&[7; COMMAND_BYTES]).expect("it is small");
    let batch = frame.repeat(BATCH_BYTES / frame.len());
    let mut took_us: Vec<f64> = (0..ROUNDS).map(|_| decode(&batch, frame.len())).collect();
    took_us.sort_by(f64::total_cmp);
    println!(
        "{} frames of {} bytes: median {:.1} us, fastest {:.1} us, slowest {:.1} us, of {ROUNDS} batches",
        batch.len() / frame.len(),
        frame.len(),
        took_us[ROUNDS / 2],
        took_us[0],
        took_us[ROUNDS - 1],
    );
}

fn decode(batch: &[u8], frame_bytes: usize) -> f64 {
    let mut decoder = Decoder::default();
    let begun = Instant::now();
    decoder.push(black_box(batch));
    let mut frames = 0;
    while let Some(frame) = decoder.next_frame().expect("it is sound") {
        black_box(&frame);
        frames += 1;
    }
    let took = begun.elapsed();
    assert_eq!(frames, batch.len() / frame_bytes);
    took.as_secs_f64() * 1e6
}
