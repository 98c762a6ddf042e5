//! Steady state allocates nothing: memory does not grow with what passes through.

#[allow(dead_code)] // its `main` is the example's
#[path = "../examples/batches.rs"]
mod batches;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// Only counts, and leaves the work to the system's allocator.
#[allow(unsafe_code)] // the only way to see allocations
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_batch_allocates_nothing_once_the_queues_are_warm() {
    let mut cluster = batches::Cluster::new();
    for batch in 0..10_000 {
        cluster.push(batch);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for batch in 10_000..20_000 {
        cluster.push(batch);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    assert_eq!(cluster.chosen(), 20_000 * batches::SLOTS);
}
