//! Which ciphers are offered, and which of them first.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// Whether this processor has a cipher's instructions: without them one thread would be busy with it for all.
pub fn is_cheap() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// All that `rustls` has, the cheapest for this processor first.
pub fn provider() -> CryptoProvider {
    let first = match is_cheap() {
        true => CipherSuite::TLS13_AES_128_GCM_SHA256,
        false => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    };
    let mut provider = default_provider();
    let is_later = |one: &SupportedCipherSuite| one.suite() != first;
    provider.cipher_suites.sort_by_key(is_later);
    provider
}
