//! What the gate needs of the configuration.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::config::{Limits, OriginSettings, Settings};

/// The part of the configuration that the gate works by; a reload swaps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// The path that the waiting room lives below, without a `/` at its end.
    pub public_path: String,
    /// Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Who serves requests that no event matches; `None`: 404.
    pub default_origin: Option<String>,
    /// Origins by name.
    pub origins: BTreeMap<String, OriginSettings>,
    /// What this node takes from the world before it says 429.
    pub limits: Limits,
}

impl From<&Settings> for ProxySettings {
    fn from(settings: &Settings) -> Self {
        Self {
            public_path: settings.public_path.clone(),
            trusted_proxies: settings.trusted_proxies.clone(),
            default_origin: settings.default_origin.clone(),
            origins: settings.origins.clone(),
            limits: settings.limits,
        }
    }
}
