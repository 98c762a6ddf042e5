//! Cache lines on their way to memory.

use std::fmt;

/// An instruction that writes a cache line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Keeps the line in the cache.
    Clwb,
    /// Drops it, in any order.
    Clflushopt,
    /// Drops it, one after the other.
    Clflush,
}

const LINE: usize = 64;

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lines::Clwb => "clwb",
            Lines::Clflushopt => "clflushopt",
            Lines::Clflush => "clflush",
        })
    }
}

impl Lines {
    /// The best there is; none where we know of no instruction.
    pub fn of_this_processor() -> Option<Lines> {
        Lines::all_of_this_processor().into_iter().next()
    }

    /// Best first.
    #[cfg(target_arch = "x86_64")]
    pub fn all_of_this_processor() -> Vec<Lines> {
        // Intel SDM, CPUID leaf 7: EBX bit 23 is CLFLUSHOPT, bit 24 CLWB. CLFLUSH came with SSE2.
        let features = std::arch::x86_64::__cpuid_count(7, 0).ebx;
        let mut all = Vec::new();
        if features & 1 << 24 != 0 {
            all.push(Lines::Clwb);
        }
        if features & 1 << 23 != 0 {
            all.push(Lines::Clflushopt);
        }
        all.push(Lines::Clflush);
        all
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn all_of_this_processor() -> Vec<Lines> {
        Vec::new()
    }

    /// All lines of these bytes, which are mapped; later stores come after them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn flush(self, start: *mut u8, length: usize) {
        use std::arch::asm;
        let before = start.addr() % LINE;
        let first = start.wrapping_sub(before);
        for at in (0..before + length).step_by(LINE) {
            let line = first.wrapping_add(at);
            // SAFETY: the processor has the instruction, or this value was not made; it changes no
            // memory. The line lies in a page of the mapping, as a byte of it does.
            unsafe {
                match self {
                    Lines::Clwb => {
                        asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
                    }
                    Lines::Clflushopt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                    Lines::Clflush => std::arch::x86_64::_mm_clflush(line),
                }
            }
        }
        // SAFETY: every x86_64 has SSE.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn flush(self, _: *mut u8, _: usize) {}
}
