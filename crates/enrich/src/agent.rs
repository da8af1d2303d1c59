//! What a `User-Agent` tells of the program, the system and the device.

use std::borrow::Cow;

use woothee::parser::Parser;

/// What a `User-Agent` tells; empty where it tells nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agent<'a> {
    /// No person's program.
    pub is_server: bool,
    /// Operating system.
    pub os: Cow<'a, str>,
    /// Its version.
    pub os_version: Cow<'a, str>,
    /// Browser.
    pub browser: Cow<'a, str>,
    /// Its version.
    pub browser_version: Cow<'a, str>,
    /// `desktop`, `mobile`, `tablet`, `console`, `smarttv` or `server`.
    pub device: &'static str,
    /// Who makes it.
    pub brand: &'static str,
    /// What they call it.
    pub model: Cow<'a, str>,
}

/// Words of apps on Apple's and Google's systems, whose agents name no browser.
const APPS: [(&str, &str); 2] = [("CFNetwork", "iOS"), ("Dalvik", "Android")];

/// Makers by how their models' names begin.
const MAKERS: [(&str, &str); 12] = [
    ("SM-", "Samsung"),
    ("SAMSUNG", "Samsung"),
    ("GT-", "Samsung"),
    ("Pixel", "Google"),
    ("Nexus", "Google"),
    ("Redmi", "Xiaomi"),
    ("Mi ", "Xiaomi"),
    ("POCO", "Xiaomi"),
    ("ONEPLUS", "OnePlus"),
    ("moto", "Motorola"),
    ("HUAWEI", "Huawei"),
    ("CPH", "OPPO"),
];

impl Agent<'_> {
    /// The same, held by itself.
    pub fn into_owned(self) -> Agent<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Agent {
            is_server: self.is_server,
            os: owned(self.os),
            os_version: owned(self.os_version),
            browser: owned(self.browser),
            browser_version: owned(self.browser_version),
            device: self.device,
            brand: self.brand,
            model: owned(self.model),
        }
    }
}

/// Reads an agent's text, which may be empty. To read one takes microseconds: whoever reads many
/// asks [`crate::Agents`], which remembers them.
pub fn agent(text: &str) -> Agent<'_> {
    let server = Agent {
        is_server: true,
        device: "server",
        ..Agent::default()
    };
    if is_one_product(text) {
        return server;
    }
    let found = Parser::new().parse(text);
    let app = APPS.iter().find(|(word, _)| text.contains(word));
    let Some(found) = found.filter(|found| found.os != "UNKNOWN" || found.name != "UNKNOWN") else {
        return match app {
            Some((_, os)) => Agent {
                os: Cow::Borrowed(*os),
                device: "mobile",
                ..Agent::default()
            },
            None => server,
        };
    };
    let (os, os_version) = system(found.os, &found.os_version);
    let model = model(text);
    Agent {
        is_server: false,
        os: Cow::Borrowed(os),
        os_version: Cow::Owned(os_version),
        browser: Cow::Borrowed(known(found.name)),
        browser_version: Cow::Borrowed(known(found.version)),
        device: device(found.category, os, text),
        brand: brand(os, model),
        model: Cow::Borrowed(model),
    }
}

/// A missing agent, a single word, or one product with a version of digits and dots: browsers
/// and apps say more of themselves.
fn is_one_product(text: &str) -> bool {
    let product = text.trim();
    if product.contains(' ') {
        return false;
    }
    let version = product.split_once('/').map(|(_, version)| version);
    version.is_none_or(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

fn known(text: &str) -> &str {
    if text == "UNKNOWN" { "" } else { text }
}

/// Systems by the names that dashboards use.
fn system<'a>(os: &'a str, version: &str) -> (&'a str, String) {
    if let Some(windows) = os.strip_prefix("Windows") {
        return ("Windows", windows.trim().to_owned());
    }
    let os = match os {
        "Mac OSX" | "Mac OS Classic" => "macOS",
        "iPhone" | "iPad" | "iPod" | "iOS" => "iOS",
        "ChromeOS" => "Chrome OS",
        "UNKNOWN" => "",
        other => other,
    };
    (os, known(version).to_owned())
}

fn device(category: &str, os: &str, text: &str) -> &'static str {
    let tv = [
        "SmartTV",
        "SMART-TV",
        "AppleTV",
        "BRAVIA",
        "Android TV",
        "GoogleTV",
    ];
    if tv.iter().any(|word| text.contains(word)) {
        return "smarttv";
    }
    let tablet = text.contains("iPad") || (os == "Android" && !text.contains("Mobile"));
    match category {
        _ if tablet => "tablet",
        "smartphone" | "mobilephone" => "mobile",
        "appliance" => "console",
        _ if os == "Android" || os == "iOS" => "mobile",
        _ => "desktop",
    }
}

/// The model as Apple's and Android's agents name it.
fn model(text: &str) -> &str {
    for apple in ["iPhone", "iPad", "iPod", "Macintosh"] {
        if text.contains(apple) {
            return apple;
        }
    }
    let Some((_, behind)) = text.split_once("Android") else {
        return "";
    };
    let Some((inside, _)) = behind.split_once(')') else {
        return "";
    };
    let named = inside.split(';').nth(1).unwrap_or_default();
    let named = named.split(" Build/").next().unwrap_or_default().trim();
    // Chrome says only `K` since it tells no models any more.
    if named == "K" { "" } else { named }
}

fn brand(os: &str, model: &str) -> &'static str {
    if ["iPhone", "iPad", "iPod", "Macintosh"].contains(&model) || os == "macOS" {
        return "Apple";
    }
    let maker = MAKERS.iter().find(|(start, _)| model.starts_with(start));
    maker.map_or("", |(_, maker)| maker)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> [String; 6] {
        let found = agent(text);
        [
            found.os.into(),
            found.os_version.into(),
            found.browser.into(),
            found.device.into(),
            found.brand.into(),
            found.model.into(),
        ]
    }

    #[test]
    fn servers_are_told_from_people() {
        for text in [
            "",
            "node",
            "curl/8.5.0",
            "python-requests/2.31.0",
            "Go-http-client/1.1",
            "PostmanRuntime/7.36.1",
            "Dart/3.0 (dart:io)",
        ] {
            let found = agent(text);
            assert!(found.is_server, "{text}");
            assert_eq!((found.device, &*found.os), ("server", ""), "{text}");
        }
        for text in [
            "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8)",
            "Shop/12 CFNetwork/1410.0.3 Darwin/22.6.0",
        ] {
            assert!(!agent(text).is_server, "{text}");
        }
    }

    #[test]
    fn browsers_systems_and_devices_have_their_names() {
        let chrome = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0";
        let linux = format!("Mozilla/5.0 (X11; Linux x86_64) {chrome} Safari/537.36");
        assert_eq!(told(&linux), ["Linux", "", "Chrome", "desktop", "", ""]);
        assert_eq!(agent(&linux).browser_version, "131.0.0.0");
        let windows = format!("Mozilla/5.0 (Windows NT 10.0; Win64; x64) {chrome} Safari/537.36");
        assert_eq!(
            told(&windows),
            ["Windows", "10", "Chrome", "desktop", "", ""]
        );
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 \
            (KHTML, like Gecko) Version/17.1 Mobile/15E148 Safari/604.1";
        assert_eq!(
            told(phone),
            ["iOS", "17.1", "Safari", "mobile", "Apple", "iPhone"]
        );
        let pixel =
            format!("Mozilla/5.0 (Linux; Android 14; Pixel 8) {chrome} Mobile Safari/537.36");
        assert_eq!(
            told(&pixel),
            ["Android", "14", "Chrome", "mobile", "Google", "Pixel 8"]
        );
        let galaxy = format!("Mozilla/5.0 (Linux; Android 13; SM-X700) {chrome} Safari/537.36");
        assert_eq!(
            told(&galaxy),
            ["Android", "13", "Chrome", "tablet", "Samsung", "SM-X700"]
        );
        let firefox =
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:133.0) Gecko/20100101 Firefox/133.0";
        assert_eq!(
            told(firefox),
            ["macOS", "10.15", "Firefox", "desktop", "Apple", "Macintosh"]
        );
    }
}
