//! Signs that a request of a browser is a bot's: none of them alone makes it one.

/// Which headers a request has, of those that browsers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrowserHeaders {
    /// `sec-ch-ua`
    pub client_hints: bool,
    /// any `sec-fetch-*`
    pub fetch_metadata: bool,
    /// `accept-language`
    pub languages: bool,
}

/// Autonomous systems of the largest hosters, as their public registrations number them: Amazon,
/// Google Cloud, Microsoft, DigitalOcean, Hetzner, OVH, Linode, Vultr, Oracle, Alibaba, Tencent,
/// Contabo, Scaleway, Leaseweb, IBM, Rackspace, Ionos, Equinix, HostRoyale, M247.
const HOSTERS: [u32; 27] = [
    7_224, 8_075, 8_560, 8_987, 9_009, 12_876, 14_061, 14_618, 15_169, 15_830, 16_276, 16_509,
    19_994, 20_473, 24_940, 28_753, 31_898, 36_351, 37_963, 45_102, 45_090, 51_167, 60_068, 60_781,
    63_949, 132_203, 396_982,
];

/// Why a request looks like a bot's, separated by commas; empty if it does not.
pub fn bot_signs(headers: BrowserHeaders, user_agent: &str, asn: Option<u32>) -> String {
    let mut signs = Vec::new();
    if let Some(asn) = asn.filter(|asn| HOSTERS.contains(asn)) {
        signs.push(format!("datacenter_ip:AS{asn}"));
    }
    // Only browsers of that family send client hints.
    let blink = user_agent.contains("Chrome/") || user_agent.contains("Chromium/");
    let missing = [
        (blink && !headers.client_hints, "header:missing_sec_ch_ua"),
        (!headers.fetch_metadata, "header:missing_sec_fetch"),
        (!headers.languages, "header:missing_accept_language"),
    ];
    signs.extend(
        missing
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, sign)| sign.to_owned()),
    );
    signs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sign_has_its_word() {
        let all = BrowserHeaders {
            client_hints: true,
            fetch_metadata: true,
            languages: true,
        };
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36";
        assert_eq!(bot_signs(all, chrome, Some(3_320)), "");
        assert_eq!(
            bot_signs(all, chrome, Some(16_509)),
            "datacenter_ip:AS16509"
        );
        let none = BrowserHeaders {
            client_hints: false,
            fetch_metadata: false,
            languages: false,
        };
        let of_headers = "header:missing_sec_fetch,header:missing_accept_language";
        assert_eq!(
            bot_signs(none, "Mozilla/5.0 Firefox/133.0", None),
            of_headers
        );
        let with_hints = format!("header:missing_sec_ch_ua,{of_headers}");
        assert_eq!(bot_signs(none, chrome, None), with_hints);
    }
}
