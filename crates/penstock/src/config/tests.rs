//! The promises of the configuration: order of precedence, clear complaints, no secrets shown.

use std::{io::Write as _, path::Path};

use super::*;

fn load(file: &str, variables: &[(&str, &str)], listen: Option<&str>) -> Result<Loaded, ConfigError> {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file.as_bytes()).unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Loaded::load(Flags { config: Some(on_disk.path()), data: None, listen }, variables)
}

fn complaint(file: &str, variables: &[(&str, &str)]) -> String {
    load(file, variables, None).unwrap_err().to_string()
}

#[test]
fn later_layers_win() {
    let file = "[http]\nlisten = \"127.0.0.1:1\"\n[ledger]\nmax_batch = 7\n";
    let variables = [("PENSTOCK_HTTP__LISTEN", "127.0.0.1:2"), ("HOME", "/root")];
    let listen = |loaded: Loaded| loaded.config.http.listen.port();
    assert_eq!(listen(load("", &[], None).unwrap()), 8080);
    assert_eq!(listen(load(file, &[], None).unwrap()), 1);
    assert_eq!(listen(load(file, &variables, None).unwrap()), 2);
    assert_eq!(listen(load(file, &variables, Some("127.0.0.1:3")).unwrap()), 3);
    assert_eq!(load(file, &variables, None).unwrap().config.ledger.max_batch, 7);
}

#[test]
fn secrets_have_short_names_and_are_never_shown() {
    let variables = [
        ("PENSTOCK_ADMIN_TOKEN", "hush-admin"),
        ("PENSTOCK_SECRET", "hush-secret"),
        ("PENSTOCK_IDENTITY__JWT__SECRET", "hush-jwt"),
    ];
    let loaded = load("", &variables, None).unwrap();
    let identity = &loaded.config.identity;
    assert_eq!(identity.admin_token.get(), Some("hush-admin"));
    assert_eq!(identity.secret.get(), Some("hush-secret"));
    assert_eq!(identity.jwt.secret.get(), Some("hush-jwt"));
    for shown in [loaded.to_toml(), loaded.to_json().to_string(), format!("{:?}", loaded.config)] {
        assert!(!shown.contains("hush"), "{shown}");
    }
    assert!(
        loaded
            .to_toml()
            .contains("# admin_token = …  # set, not shown, from the variable PENSTOCK_ADMIN_TOKEN")
    );
}

#[test]
fn the_default_country_has_to_exist() {
    let home = |code: &str| load(&format!("[identity]\ndefault_country = {code:?}\n"), &[], None);
    assert_eq!(home("DE").unwrap().config.identity.default_country, "DE".parse().unwrap());
    for wrong in ["", "de", "Germany", "XX"] {
        let complaint = home(wrong).unwrap_err().to_string();
        assert!(
            complaint.contains("identity.default_country") && complaint.contains("such as CN"),
            "{complaint}"
        );
    }
}

#[test]
fn a_printed_configuration_can_be_read_back() {
    let file = "data = 'some \"where\"'\n[settle]\nbatch = 17\n[log]\nformat = \"json\"\n";
    let variables = [("PENSTOCK_LEDGER__MAX_BATCH", "3"), ("PENSTOCK_ADMIN_TOKEN", "hush")];
    let first = load(file, &variables, Some("127.0.0.1:9")).unwrap();
    let again = load(&first.to_toml(), &[("PENSTOCK_ADMIN_TOKEN", "hush")], None).unwrap();
    assert_eq!(format!("{:?}", first.config), format!("{:?}", again.config));
    let defaults = load("", &[], None).unwrap();
    let again = load(&defaults.to_toml(), &[], None).unwrap();
    assert_eq!(format!("{:?}", defaults.config), format!("{:?}", again.config));
}

#[test]
fn an_unknown_key_is_named_with_its_origin() {
    let text = complaint("[http]\nlissten = \"127.0.0.1:1\"\n", &[]);
    assert!(text.contains("http.lissten (from /") && text.contains("did you mean http.listen?"), "{text}");
    let text = complaint("[nonsense]\nvalue = 1\n", &[]);
    assert!(text.contains("nonsense.value (from /") && text.contains("no such setting"), "{text}");
    let text = complaint("http = 3\n", &[]);
    assert!(text.contains("http (from /"), "{text}");
    let text = complaint("", &[("PENSTOCK_HTTP__PORT", "1")]);
    assert!(text.contains("http.port (from the variable PENSTOCK_HTTP__PORT): no such setting"), "{text}");
}

#[test]
fn variables_that_may_belong_to_other_programs_are_noted_and_ignored() {
    let variables =
        [("PENSTOCK_PORT", "tcp://10.0.0.1:80"), ("PENSTOCK_ADMIN_TOKN", "x"), ("PENSTOCK_DATA", "d")];
    let loaded = load("", &variables, None).unwrap();
    assert_eq!(loaded.ignored_variables(), ["PENSTOCK_PORT", "PENSTOCK_ADMIN_TOKN"]);
}

#[test]
fn a_wrong_type_is_refused() {
    let text = complaint("[ledger]\nmax_batch = \"many\"\n", &[]);
    assert!(text.contains("ledger.max_batch") && text.contains("has to be a whole number"), "{text}");
    let text = complaint("", &[("PENSTOCK_LEDGER__MAX_BATCH", "many")]);
    assert!(text.contains("PENSTOCK_LEDGER__MAX_BATCH): has to be a whole number, not \"many\""), "{text}");
    let text = complaint("", &[("PENSTOCK_HTTP__SECURE_COOKIES", "maybe")]);
    assert!(text.contains("http.secure_cookies") && text.contains("true or false"), "{text}");
    let text = complaint("[log]\nlevel = 3\n", &[]);
    assert!(text.contains("log.level") && text.contains("text in quotes"), "{text}");
    let text = complaint("[log]\nlevel = { deep = 3 }\n", &[]);
    assert!(text.contains("log.level") && text.contains("text in quotes"), "{text}");
}

#[test]
fn values_out_of_bounds_are_refused_together() {
    let text = complaint("[ledger]\nmax_batch = 0\n[log]\nformat = \"xml\"\nlevel = \"a=b=c\"\n", &[]);
    assert!(text.contains("ledger.max_batch") && text.contains("has to be 1 to"), "{text}");
    assert!(text.contains("log.format") && text.contains("not one of text, json"), "{text}");
    assert!(text.contains("log.level") && text.contains("not a log filter"), "{text}");
    let text = complaint("", &[("PENSTOCK_HTTP__LISTEN", "nowhere")]);
    assert!(text.contains("not an address such as 127.0.0.1:8080"), "{text}");
    let text = complaint("", &[("PENSTOCK_ADMIN_TOKEN", "two words")]);
    assert!(text.contains("visible ASCII") && !text.contains("two words"), "{text}");
}

#[test]
fn trusted_proxies_are_addresses_and_networks() {
    let proxies = |text: &str| load(&format!("[http]\ntrusted_proxies = \"{text}\"\n"), &[], None);
    let shown = |text: &str| {
        let config = proxies(text).unwrap().config;
        config.http.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown(""), Vec::<String>::new());
    assert_eq!(shown("10.0.0.0/8, 192.0.2.7,2001:db8::/32"), ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"]);
    assert_eq!(shown("10.1.2.3/8"), ["10.0.0.0/8"], "the bits of the host don't count");
    for wrong in ["proxy.example", "10.0.0.0/33", "10.0.0.0/8;192.0.2.7", "10.0.0.1,,10.0.0.2"] {
        let text = proxies(wrong).unwrap_err().to_string();
        assert!(text.contains("http.trusted_proxies") && text.contains("such as 10.0.0.0/8"), "{text}");
    }
    let text = complaint("", &[("PENSTOCK_HTTP__TRUSTED_PROXIES", "everybody")]);
    assert!(text.contains("PENSTOCK_HTTP__TRUSTED_PROXIES") && text.contains("\"everybody\""), "{text}");
}

#[test]
fn limits_on_requests_and_connections_have_defaults() {
    let http = load("", &[], None).unwrap().config.http;
    assert_eq!((http.request_seconds, http.max_connections_per_address), (10, 1024));
    assert!(complaint("[http]\nrequest_seconds = 0\n", &[]).contains("has to be 1 to 3600"));
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let text = complaint("[ledger]\nmax_batch = 10\nmax_queued = 5\n", &[]);
    assert!(text.contains("ledger.max_batch") && text.contains("ledger.max_queued (5)"), "{text}");
    let text = complaint("[settle]\nbackoff_min_milliseconds = 6000\n", &[]);
    assert!(text.contains("settle.backoff_max_milliseconds (5000)"), "{text}");
}

#[test]
fn a_prefix_that_would_put_all_sales_on_one_server_is_refused() {
    assert!(complaint("[redis]\nprefix = 'shop{7}:'", &[]).contains("redis.prefix"));
    assert!(load("[redis]\nprefix = 'shop7:'", &[], None).is_ok());
}

#[test]
fn a_file_that_is_missing_or_broken_is_named() {
    let flags = Flags { config: Some(Path::new("/nowhere/penstock.toml")), ..Flags::default() };
    let text = Loaded::load(flags, std::iter::empty()).unwrap_err().to_string();
    assert!(text.contains("/nowhere/penstock.toml: can't be read"), "{text}");
    let text = complaint("[http\n", &[]);
    assert!(text.contains("line 1"), "{text}");
}
