//! The system's allocator, told what to give back.
//!
//! glibc takes large blocks from the kernel one by one and gives each back when it is freed, at first those of 128 KiB and more. But each block that
//! is freed raises that limit to its own size, up to 32 MiB: from then on blocks of that size come from arenas, which keep what was
//! freed. A node that once served large requests would keep the memory of the worst moment in a dozen arenas for good.

#![allow(unsafe_code)] // each use says why it is sound

/// Blocks of so many bytes are given back to the kernel when they are freed, whatever was freed before.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const GIVEN_BACK_FROM: libc::c_int = 1 << 20;

/// Has the allocator give large blocks back when they are freed. For the beginning of a program; with another allocator it does nothing.
pub fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt(3) may be called at any time and from any thread. It takes two numbers, and refuses what it does not know.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, GIVEN_BACK_FROM);
    }
}

/// Gives free memory in the allocator's arenas back to the kernel, if it is more than so many bytes: what smaller blocks took. It takes milliseconds for
/// each 100 MiB, in which others wait for an arena.
pub fn give_back_free_blocks(above_bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both may be called at any time and from any thread; mallinfo2(3) has no arguments and returns numbers, malloc_trim(3) takes a number.
    unsafe {
        if libc::mallinfo2().fordblks > above_bytes {
            libc::malloc_trim(0);
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = above_bytes;
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::fs;

    use super::*;

    /// The memory of this process, in pages.
    fn resident_pages() -> u64 {
        let statm = fs::read_to_string("/proc/self/statm").expect("its memory");
        let resident = statm.split(' ').nth(1).expect("a second number");
        resident.parse().expect("a number")
    }

    #[test]
    fn large_blocks_are_given_back_after_larger_ones() {
        give_back_large_blocks();
        drop(vec![1u8; 16 << 20]);
        let blocks = |count: usize| (0..count).map(|_| vec![1u8; 2 << 20]);
        let mut all: Vec<Vec<u8>> = blocks(100).collect();
        let before = resident_pages();
        // The last one stays: an arena gives nothing back below it.
        all.drain(..99);
        let freed = before.saturating_sub(resident_pages());
        assert!(freed * 4096 > 150 << 20, "{freed} pages were given back");
    }
    #[test]
    fn small_blocks_of_other_threads_are_given_back() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let all: Vec<Vec<u8>> = (0..1000).map(|_| vec![1u8; 64 << 10]).collect();
                    let last = vec![1u8; 100];
                    drop(all);
                    last
                })
            })
            .collect();
        let kept: Vec<Vec<u8>> = threads
            .into_iter()
            .map(|thread| thread.join().expect("it ends"))
            .collect();
        let before = resident_pages();
        give_back_free_blocks(1 << 40);
        let untouched = resident_pages();
        give_back_free_blocks(100 << 20);
        let freed = untouched.saturating_sub(resident_pages());
        assert!(
            untouched + 1000 > before,
            "nothing was given back below the bound"
        );
        assert!(freed * 4096 > 150 << 20, "{freed} pages were given back");
        assert_eq!(kept.len(), 4);
    }
}
