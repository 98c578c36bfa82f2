//! CPU features: which instruction set the kernels use.
//!
//! Every kernel is portable Rust that is compiled once per instruction set. The choice is made at run time, so that
//! the default build is portable and fast. A [`CpuFeatures`] can only be obtained for instructions the
//! processor has. Every SAFETY note that names a CpuFeatures rests on this invariant.
//!
//! Tests and instruction counts choose an instruction set by passing it (`with_cpu_features`). Nothing reads the environment.

use std::sync::atomic::{AtomicU8, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Feature {
    Portable = 1,
    #[cfg(target_arch = "x86_64")]
    Avx2 = 2,
    #[cfg(target_arch = "x86_64")]
    Avx512 = 3,
}

/// An instruction set this processor is known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuFeatures(Feature);

/// Zero: not looked up yet. Otherwise a `Feature`.
static CURRENT: AtomicU8 = AtomicU8::new(0);

impl CpuFeatures {
    /// Plain Rust for the build's baseline. Tests compare every other instruction set with it.
    pub const PORTABLE: CpuFeatures = CpuFeatures(Feature::Portable);

    /// The best instruction set of this processor.
    #[inline]
    pub fn best() -> CpuFeatures {
        match CURRENT.load(Ordering::Relaxed) {
            1 => CpuFeatures(Feature::Portable),
            #[cfg(target_arch = "x86_64")]
            2 => CpuFeatures(Feature::Avx2),
            #[cfg(target_arch = "x86_64")]
            3 => CpuFeatures(Feature::Avx512),
            _ => Self::look_up(),
        }
    }

    #[cold]
    fn look_up() -> CpuFeatures {
        let cpu = Self::detect();
        CURRENT.store(cpu.0 as u8, Ordering::Relaxed);
        cpu
    }

    fn detect() -> CpuFeatures {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2");
            if avx512 {
                return CpuFeatures(Feature::Avx512);
            }
            if avx2 {
                return CpuFeatures(Feature::Avx2);
            }
        }
        CpuFeatures(Feature::Portable)
    }

    /// Every instruction set of this processor, portable first. Tests loop over them.
    pub fn available() -> Vec<CpuFeatures> {
        let best = Self::detect();
        let mut all = vec![CpuFeatures(Feature::Portable)];
        #[cfg(target_arch = "x86_64")]
        all.extend(
            [CpuFeatures(Feature::Avx2), CpuFeatures(Feature::Avx512)].into_iter().filter(|cpu| *cpu <= best),
        );
        all.retain(|cpu| *cpu <= best);
        all
    }

    #[inline]
    pub(crate) fn feature(self) -> Feature {
        self.0
    }
}

/// Defines a kernel that is compiled once per instruction set from one `#[inline(always)]` body.
///
/// `dispatched! { fn name<T: Bound>(a: A, b: B) -> R = body; }` gives `fn name<T>(cpu: CpuFeatures, a: A, b: B) -> R`.
macro_rules! dispatched {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident $(<$generic:ident: $bound:path>)?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:path;)*) => {$(
        $(#[$meta])*
        #[allow(unsafe_code, clippy::too_many_arguments, reason = "calls of the per-instruction-set copies, see SAFETY")]
        #[inline]
        $vis fn $name $(<$generic: $bound>)? (cpu: $crate::cpu::CpuFeatures, $($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn avx2 $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    $body($($argument),*)
                }
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi")]
                fn avx512 $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                    $body($($argument),*)
                }
                match cpu.feature() {
                    // SAFETY: a CpuFeatures exists only for instructions that the processor has.
                    $crate::cpu::Feature::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    $crate::cpu::Feature::Avx2 => return unsafe { avx2($($argument),*) },
                    $crate::cpu::Feature::Portable => {}
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = cpu;
            $body($($argument),*)
        }
    )*};
}
pub(crate) use dispatched;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_always_there_and_comes_first() {
        let all = CpuFeatures::available();
        assert_eq!(all[0], CpuFeatures::PORTABLE);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.contains(&CpuFeatures::detect()));
    }
}
