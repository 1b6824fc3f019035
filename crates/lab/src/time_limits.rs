//! How long machines get to boot and probes of KVM to answer, by how deep they are in others.

use std::collections::BTreeMap;

use nestor_stack::{Accelerator, Depth};

/// Most milliseconds for a boot: hundreds of times what hardware needs, ten times what emulation does.
const HOST_BOOT_MS: u64 = 90_000;

/// The same for a guest: ten seconds is usual in an emulated host, minutes when emulated in emulation.
const GUEST_BOOT_MS: u64 = 240_000;

/// The same for a guest in a guest: every exit of it is several exits of each machine around it.
const DEEP_BOOT_MS: u64 = 900_000;

/// The least limit of a guest.
const LEAST_BOOT_MS: u64 = 30_000;

/// Limit of a guest that has booted here before, as a multiple of the slowest boot. A guest that hangs, as guests in an
/// emulated host do at times, is then given up sooner.
const TIMES_SLOWEST: u64 = 10;

/// Limit of the first guest under KVM, as a multiple of its emulated host's boot. Both boot the same kernel; the guest takes one
/// to three times as long.
const TIMES_HOST: u64 = 20;

/// Milliseconds a probe of KVM gets: real KVM boots it in well under a second, KVM in an emulated host in under ten.
const PROBE_MS: u64 = 30_000;

/// The same in a guest.
const DEEP_PROBE_MS: u64 = 300_000;

/// Seconds that every machine gets to boot, instead of its usual limit.
const BOOT_LIMIT_VARIABLE: &str = "NESTOR_BOOT_LIMIT_S";

/// Milliseconds a machine gets to boot: the user's wish, otherwise what the boots so far lead to expect.
///
/// `slowest_ms` has the slowest boot of each depth.
pub(crate) fn boot_limit_ms(
    depth: Depth,
    accelerator: Option<Accelerator>,
    slowest_ms: &BTreeMap<Depth, u64>,
) -> u64 {
    let wish = std::env::var(BOOT_LIMIT_VARIABLE).ok().and_then(|text| text.trim().parse::<u64>().ok());
    wish.filter(|&seconds| seconds > 0).map_or_else(
        || usual_boot_limit_ms(depth, accelerator, slowest_ms),
        |seconds| seconds.saturating_mul(1000),
    )
}

/// Milliseconds a probe of KVM gets in a machine at `depth`.
pub(crate) fn probe_limit_ms(depth: Depth) -> u64 {
    if depth > Depth::GUEST { DEEP_PROBE_MS } else { PROBE_MS }
}

fn usual_boot_limit_ms(
    depth: Depth,
    accelerator: Option<Accelerator>,
    slowest_ms: &BTreeMap<Depth, u64>,
) -> u64 {
    let most = match depth {
        // How it is emulated is not known before it has booted.
        Depth::ROOT => return HOST_BOOT_MS,
        Depth::GUEST => GUEST_BOOT_MS,
        _ => DEEP_BOOT_MS,
    };
    let seen = slowest_ms.get(&depth).map(|slowest_ms| slowest_ms * TIMES_SLOWEST);
    // One that is emulated, or may be, takes much longer than its host; so does a guest in a guest.
    let is_like_its_host =
        depth == Depth::GUEST && accelerator.is_some_and(Accelerator::is_hardware_assisted);
    let host = slowest_ms.get(&Depth::ROOT).filter(|_| is_like_its_host).map(|host_ms| host_ms * TIMES_HOST);
    seen.or(host).map_or(most, |limit_ms| limit_ms.clamp(LEAST_BOOT_MS, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_gets_as_long_as_what_booted_before_lets_expect() {
        let limit = |depth, accelerator, seen: &[(Depth, u64)]| {
            usual_boot_limit_ms(depth, accelerator, &BTreeMap::from_iter(seen.iter().copied()))
        };
        let kvm = Some(Accelerator::Kvm);
        let (root, guest, deep) = (Depth::ROOT, Depth::GUEST, Depth::GUEST.inside());
        assert_eq!(limit(root, None, &[(root, 6_000)]), HOST_BOOT_MS);
        assert_eq!(limit(guest, kvm, &[]), GUEST_BOOT_MS, "nothing is known");
        assert_eq!(limit(guest, kvm, &[(root, 6_000)]), 120_000, "its host booted");
        assert_eq!(limit(guest, kvm, &[(root, 6_000), (guest, 9_000)]), 90_000, "a guest booted");
        assert_eq!(limit(guest, kvm, &[(root, 400), (guest, 500)]), LEAST_BOOT_MS);
        assert_eq!(limit(guest, kvm, &[(root, 60_000)]), GUEST_BOOT_MS);
        // Emulated in an emulated host, or perhaps: minutes.
        assert_eq!(limit(guest, Some(Accelerator::Tcg), &[(root, 6_000)]), GUEST_BOOT_MS);
        assert_eq!(limit(guest, None, &[(root, 6_000)]), GUEST_BOOT_MS);
        assert_eq!(limit(deep, kvm, &[(root, 6_000), (guest, 9_000)]), DEEP_BOOT_MS);
    }
}
