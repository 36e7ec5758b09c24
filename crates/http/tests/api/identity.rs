//! Shop tokens and the admin token.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use penstock_shop::identity::{JwtKey, JwtOptions};
use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, JWT_SECRET, START, Shop, jwt, new_key};

const NOW: i64 = START / 1000;

/// A test key, generated for this file with `openssl genpkey -algorithm ed25519`.
const ED25519_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIPPYsAG+7yzOEkzSMMIEH6ZULCtEiLJREx9b1ZPHdL0y
-----END PRIVATE KEY-----
";
const ED25519_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEArxYvb+2hrlHipTQZq/eJ8frr82uxAdvJBuXfzgkMFcI=
-----END PUBLIC KEY-----
";

/// Generated with `openssl genrsa`.
const RSA_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCqorcBsbtyjXjv
aSgiaKvNiFPQ97eY3Mc6FAhwWjSbCnnQPZrrDapmEkaShZvrFrNX44FYRNID3MWQ
yGs0KeDt9+UsILzEDkndMZP67j5M+P4A/d7jlArxi4rqYbuiJbYATxc9h7w+1KDm
hcr6yY2asvdb0F0Qs7eRNMiyj42CqPSg1ZhGxna0gn3kmQfLN7456FyGBlbyPrwX
FdHvUbjFO/8bkHEMrCzbuW2GY0AtVJJzwIoDKWKGDUsfUMt2NtHQzgFUcBgG+F4S
dOSkhW9ciB9o+UHeigOWAyQ2fnc+qpMxgQgOYIxM9FD0s83fZIblMjTPKZGfoQeJ
I7XoEbhzAgMBAAECggEAMJyLc22dX7yjE92K5Aaaz0KD0lgIE4HuNgMIBm4EZ5j7
7BHo5QbvIQYa2do7eaVtcV/sdOeiRxxpol4egG1f2ZuSS9iFvnrtmxjpNgcSc55J
yqGIkqAV4Atnh29RY5fHul3N2qclP2cW8aVzFrA96bELnDoHkV8JsFHvzULtRygA
8XkljEw7GhRJhNm1DByBcF+WNFzj8U7n9SzkQSl5XZh4la+C+XtHYr+aTiimK0hm
id3Gg/tciHJyB4KA96ckyOLJNemPcxTvv9FnkRECPR91Y0JzMkchPEmExBo1RmUc
yAN6nvh8hwgKCTb3qn1yQP3f1yJPB2U4iRnD57h6SQKBgQDVEB5cJVvq88eZmQmH
VGoHzOOjxd3j74tqvQaPIhw7fVjQXnnLTiGldEXoblkVU8srpFosTidWkGcwlxpZ
7oc8iJaYx8YYWWJIa5FDywkKtt9Hh7kqqg1RxpInbyHZa9YpSuoYCDSkhtsTrqtZ
myYxGO8EFdutKflyCya0G7wuGwKBgQDNBca1PqUtcq3Ui6+dj/Md5q/Td9Xm6vDI
XAB5XZuv/CB/b3IplkfhGOl/34PKXPJNvC3OzzganqgemuFguXa+OyJ9f3TJUugy
sjg3SQxaQIOhVSmY+yCmN+mUPahoiFK6aartVJtDWjyEniLSrW+08VDiLzbJTt5J
bGDvprfkiQKBgGsV9dxkXoWBTyHQ/CwLbltLTGKk8Xg9jnnwVZqdD0mLH5di1J4t
P9Xz0asXwyhn/CaMLVI1Wao1W9fdKj5nF4uCLwbM6bCVREOX5OQI6Rt8fE5sVdGu
tJEUV6MARSgM/g+0+mFnxmWm7fc/hBm+U/y7Rm5sOgQXo6sBFcvSYMtfAoGAeRuV
YpDrz6nzZx9QkLlsulf/uuIJ98sGisRV/1s9UTqVE9IIVOqR8TTfEYs99XbsJuEn
Cgg8MvVPiCyjP5iuvPZ/jDSTDy2rPe8q5/V9l36OgumkldqaUbWrg8bcSUtl2vn6
XxFgWeve3dPv7BVJbFA0IDgVm9q70hF0PXx1GkkCgYEAu1qLR9M+iqYlzWuMq0Y7
1N5P0ZubSIVLdxkfoYYEZaAmZRAiVik5OgzoNYxrc7BOHHtgqvHTXUxFz4ek5oXi
ngw2lAP6NWt/nGrKZ3bsnBczaJQA0bgXndKn0gEUlrpqoUPGwepiWpTipYBgadsz
sKPIsQ7LkMALsMPCCas6DBg=
-----END PRIVATE KEY-----
";
const RSA_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqqK3AbG7co1472koImir
zYhT0Pe3mNzHOhQIcFo0mwp50D2a6w2qZhJGkoWb6xazV+OBWETSA9zFkMhrNCng
7fflLCC8xA5J3TGT+u4+TPj+AP3e45QK8YuK6mG7oiW2AE8XPYe8PtSg5oXK+smN
mrL3W9BdELO3kTTIso+Ngqj0oNWYRsZ2tIJ95JkHyze+OehchgZW8j68FxXR71G4
xTv/G5BxDKws27lthmNALVSSc8CKAylihg1LH1DLdjbR0M4BVHAYBvheEnTkpIVv
XIgfaPlB3ooDlgMkNn53PqqTMYEIDmCMTPRQ9LPN32SG5TI0zymRn6EHiSO16BG4
cwIDAQAB
-----END PUBLIC KEY-----
";

fn status_with(shop: &Shop, token: &str) -> u16 {
    shop.client().with_token(token).get("/api/v1/orders").status
}

#[test]
fn a_shop_token_is_a_buyer() {
    let shop = Shop::open();
    let token = jwt(&json!({ "sub": "customer-17", "exp": NOW + 60 }));
    let me = shop.client().with_token(&token).get("/api/v1/me").json();
    assert_eq!(me, json!({ "buyer": "customer-17", "role": "buyer", "account": null }));
}

#[test]
fn an_expired_or_unlimited_shop_token_is_refused() {
    let shop = Shop::open();
    for claims in [
        json!({ "sub": "ann", "exp": NOW }),
        json!({ "sub": "ann", "exp": NOW - 3600 }),
        json!({ "sub": "ann" }),
        json!({ "sub": "ann", "exp": "tomorrow" }),
        json!({ "sub": "ann", "exp": NOW + 60, "nbf": NOW + 30 }),
        json!({ "exp": NOW + 60 }),
        json!({ "sub": "", "exp": NOW + 60 }),
        json!({ "sub": "account:0000000000001", "exp": NOW + 60 }),
        json!({ "sub": "x".repeat(129), "exp": NOW + 60 }),
    ] {
        assert_eq!(status_with(&shop, &jwt(&claims)), 401, "{claims}");
    }
    assert_eq!(status_with(&shop, &jwt(&json!({ "sub": "ann", "exp": NOW + 1 }))), 200);
}

#[test]
fn a_forged_shop_token_is_refused() {
    let shop = Shop::open();
    let claims = json!({ "sub": "ann", "exp": NOW + 60 });
    let foreign = encode(&Header::default(), &claims, &EncodingKey::from_secret(b"another secret")).unwrap();
    assert_eq!(status_with(&shop, &foreign), 401);
    let good = jwt(&claims);
    let parts: Vec<&str> = good.split('.').collect();
    let other = URL_SAFE_NO_PAD.encode(json!({ "sub": "bob", "exp": NOW + 60 }).to_string());
    assert_eq!(status_with(&shop, &format!("{}.{other}.{}", parts[0], parts[2])), 401);
    for token in ["", "x", "a.b.c", "..", &good[..good.len() - 2], &format!("{good}.{}", parts[2])] {
        assert_eq!(status_with(&shop, token), 401, "{token}");
    }
    assert_eq!(status_with(&shop, &good), 200);
}

#[test]
fn the_token_does_not_choose_the_algorithm() {
    let shop = Shop::open();
    let claims = json!({ "sub": "ann", "exp": NOW + 60 });
    let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
    for algorithm in ["none", "None", "NONE", "HS256"] {
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": algorithm, "typ": "JWT" }).to_string());
        assert_eq!(status_with(&shop, &format!("{header}.{payload}.")), 401, "{algorithm}");
        assert_eq!(status_with(&shop, &format!("{header}.{payload}")), 401, "{algorithm}");
    }
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        let token = encode(&Header::new(algorithm), &claims, &EncodingKey::from_secret(JWT_SECRET)).unwrap();
        assert_eq!(status_with(&shop, &token), 401, "{algorithm:?}");
    }
}

#[test]
fn a_shop_token_with_a_critical_header_is_refused() {
    let shop = Shop::open();
    let claims = json!({ "sub": "ann", "exp": NOW + 60 });
    let with = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::default();
        change(&mut header);
        encode(&header, &claims, &EncodingKey::from_secret(JWT_SECRET)).unwrap()
    };
    for critical in [vec!["b64"], vec!["exp"], vec!["urn:example:bound-to-a-device"], vec![]] {
        let critical: Vec<String> = critical.into_iter().map(str::to_owned).collect();
        let token = with(&|header| header.crit = Some(critical.clone()));
        assert_eq!(status_with(&shop, &token), 401, "{critical:?}");
    }
    for critical in [Value::Null, json!(""), json!("exp"), json!({}), json!([null]), json!(false)] {
        let header = json!({ "alg": "HS256", "typ": "JWT", "crit": critical });
        let signed = [&header, &claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let key = EncodingKey::from_secret(JWT_SECRET);
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &key, Algorithm::HS256).unwrap();
        assert_eq!(status_with(&shop, &format!("{signed}.{signature}")), 401, "{critical}");
    }
    let token = with(&|header| header.extras.insert("urn:example:harmless", true));
    assert_eq!(status_with(&shop, &token), 200, "headers that are not critical may be ignored");
}

fn shop_with_public_key() -> Shop {
    Shop::open_with(|options| {
        options.shop.identity.jwt = Some(JwtOptions {
            key: JwtKey::PublicKeyPem(ED25519_PUBLIC.to_owned()),
            issuer: Some("https://shop.example".to_owned()),
            audience: Some("penstock".to_owned()),
            leeway_seconds: 5,
        });
    })
}

#[test]
fn a_public_key_verifies_only_its_own_algorithm() {
    let shop = shop_with_public_key();
    let claims = json!({ "sub": "ann", "exp": NOW + 60, "iss": "https://shop.example", "aud": "penstock" });
    let key = EncodingKey::from_ed_pem(ED25519_PRIVATE.as_bytes()).unwrap();
    let sign = |claims: &Value| encode(&Header::new(Algorithm::EdDSA), claims, &key).unwrap();
    assert_eq!(status_with(&shop, &sign(&claims)), 200);
    // The public key is public, so a token signed with it as if it were a secret must be worth nothing.
    let confused =
        encode(&Header::default(), &claims, &EncodingKey::from_secret(ED25519_PUBLIC.as_bytes())).unwrap();
    assert_eq!(status_with(&shop, &confused), 401);
    for (field, value) in
        [("iss", json!("https://evil.example")), ("aud", json!("other")), ("iss", Value::Null)]
    {
        let mut wrong = claims.clone();
        wrong[field] = value;
        assert_eq!(status_with(&shop, &sign(&wrong)), 401, "{wrong}");
    }
    for field in ["iss", "aud"] {
        let mut lacking = claims.clone();
        lacking.as_object_mut().unwrap().remove(field);
        assert_eq!(status_with(&shop, &sign(&lacking)), 401, "without {field}");
    }
    let mut just_expired = claims.clone();
    just_expired["exp"] = (NOW - 3).into();
    assert_eq!(status_with(&shop, &sign(&just_expired)), 200, "clocks may differ a little");
    just_expired["exp"] = (NOW - 6).into();
    assert_eq!(status_with(&shop, &sign(&just_expired)), 401);
}

#[test]
fn a_token_with_a_critical_header_is_refused_whichever_key_signs_it() {
    let claims = json!({ "sub": "ann", "exp": NOW + 60 });
    for (algorithm, public, private) in [
        (Algorithm::EdDSA, ED25519_PUBLIC, EncodingKey::from_ed_pem(ED25519_PRIVATE.as_bytes())),
        (Algorithm::RS256, RSA_PUBLIC, EncodingKey::from_rsa_pem(RSA_PRIVATE.as_bytes())),
    ] {
        let private = private.unwrap();
        let shop = Shop::open_with(|options| {
            options.shop.identity.jwt = Some(JwtOptions {
                key: JwtKey::PublicKeyPem(public.to_owned()),
                issuer: None,
                audience: None,
                leeway_seconds: 0,
            });
        });
        let status = |header: &Value| {
            let signed = [header, &claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
            let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &private, algorithm).unwrap();
            status_with(&shop, &format!("{signed}.{signature}"))
        };
        let header = json!({ "alg": algorithm, "typ": "JWT" });
        assert_eq!(status(&header), 200, "{algorithm:?}");
        for critical in [json!(["b64"]), json!([]), Value::Null] {
            let mut header = header.clone();
            header["crit"] = critical;
            assert_eq!(status(&header), 401, "{algorithm:?} {header}");
        }
    }
}

#[test]
fn a_shop_token_never_makes_an_admin() {
    let shop = Shop::open();
    let token = jwt(&json!({ "sub": "ann", "exp": NOW + 60, "role": "admin", "admin": true }));
    shop.client().with_token(&token).get("/api/v1/admin/orders").problem(403, "forbidden");
}

#[test]
fn without_configuration_no_shop_token_is_accepted() {
    let shop = Shop::open_with(|options| options.shop.identity.jwt = None);
    assert_eq!(status_with(&shop, &jwt(&json!({ "sub": "ann", "exp": NOW + 60 }))), 401);
}

#[test]
fn the_admin_token_is_compared_as_a_whole() {
    let shop = Shop::open();
    let path = "/api/v1/admin/orders";
    assert_eq!(shop.admin().get(path).status, 200);
    for token in [&ADMIN_TOKEN[1..], &ADMIN_TOKEN[..ADMIN_TOKEN.len() - 1], "x"] {
        shop.client().with_token(token).get(path).problem(401, "unauthorized");
    }
    let mut client = shop.client();
    for authorization in ["", "Bearer", "Bearer ", "Basic YWRtaW46YWRtaW4=", ADMIN_TOKEN] {
        client.request("GET", path, &[("authorization", authorization)], b"").problem(401, "unauthorized");
    }
    let lower_case = format!("bearer {ADMIN_TOKEN}");
    assert_eq!(client.request("GET", path, &[("authorization", &lower_case)], b"").status, 200);
    let empty = Shop::open_with(|options| options.shop.identity.admin_token = Some(String::new()));
    empty.client().request("GET", path, &[("authorization", "Bearer ")], b"").problem(401, "unauthorized");
}

#[test]
fn an_account_gets_and_loses_the_admin_role_at_once() {
    let shop = Shop::open();
    let phone = "+8613800138000";
    let token = shop.account(phone, "correct horse");
    let status = || shop.client().with_token(&token).get("/api/v1/admin/sales").status;
    assert_eq!(status(), 403);
    assert!(shop.block_on(shop.records.promote(phone, true)).unwrap());
    assert_eq!(status(), 200);
    assert_eq!(shop.client().with_token(&token).get("/api/v1/me").json()["role"], "admin");
    assert!(shop.block_on(shop.records.promote(phone, false)).unwrap());
    assert_eq!(status(), 403);
    let sale = shop.sale(1);
    shop.client().with_token(&token).order(&sale, 1, &new_key());
}
