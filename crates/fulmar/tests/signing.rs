//! What deliveries are signed with, as a webhook's owner sets it.

#![allow(clippy::unwrap_used)]

mod server;

use serde_json::{Value, json};
use server::Folder;
use server::caller::start;
use server::receiver::{Got, Hooks};

/// The versions of a delivery's signatures, in order.
fn versions(got: &Got) -> Vec<&str> {
    let signatures = got.headers["webhook-signature"].split(' ');
    signatures
        .map(|one| one.split_once(',').unwrap().0)
        .collect()
}

fn count(view: &Value) -> usize {
    view["public_keys"].as_array().unwrap().len()
}

#[test]
fn v1a_comes_and_goes_beside_v1_and_can_stand_alone() {
    let folder = Folder::new();
    let (server, operator, _) = start(&folder);
    let hooks = Hooks::new(|_| 200);
    let path = "/v1/consumers/acme/webhooks";
    let fields = json!({ "url": hooks.url(), "events": ["*"] });
    let with = |more: Value| {
        let mut fields = fields.clone();
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        fields.to_string()
    };
    let made = operator.done("POST", path, &with(json!({})));
    let webhook = format!("{path}/{}", made["id"].as_str().unwrap());
    let test = format!("{webhook}:test");
    assert_eq!((&made["signature_type"], count(&made)), (&json!("hmac"), 0));
    operator.done("POST", &test, "");
    assert_eq!(versions(&hooks.next()), ["v1"]);

    let turn = |kind: &str| json!({ "signature_type": kind }).to_string();
    let turned = operator.done("PATCH", &webhook, &turn("ed25519"));
    assert_eq!(
        (&turned["signature_type"], count(&turned)),
        (&json!("ed25519"), 1)
    );
    assert_eq!(
        operator.done("PATCH", &webhook, &turn("ed25519"))["public_keys"],
        turned["public_keys"]
    );
    operator.done("POST", &test, "");
    let mut both = hooks.next();
    assert_eq!(versions(&both), ["v1a", "v1"]);
    operator.done("POST", &format!("{webhook}:rotateSecret"), "");
    operator.done("POST", &test, "");
    both = hooks.next();
    assert_eq!(versions(&both), ["v1a", "v1", "v1a", "v1"]);
    // Three of a kind sign at once.
    operator.done("POST", &format!("{webhook}:rotateSecret"), "");
    let (status, told) = operator.call("POST", &format!("{webhook}:rotateSecret"), "");
    assert_eq!((status, &told["code"]), (409, &json!("rotation_under_way")));
    assert_eq!(count(&operator.done("PATCH", &webhook, &turn("hmac"))), 0);
    operator.done("POST", &test, "");
    assert_eq!(versions(&hooks.next()), ["v1"; 3]);

    let key = "whsk_TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=";
    let (status, told) = operator.call("POST", path, &with(json!({ "secret": key })));
    assert_eq!((status, &told["field"]), (422, &json!("secret")));
    let own = json!({ "secret": key, "signature_type": "ed25519" });
    let alone = operator.done("POST", path, &with(own));
    assert_eq!(
        alone["public_keys"],
        json!(["whpk_PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="])
    );
    let webhook = format!("{path}/{}", alone["id"].as_str().unwrap());
    operator.done("POST", &format!("{webhook}:test"), "");
    assert_eq!(versions(&hooks.next()), ["v1a"]);
    let (status, told) = operator.call("PATCH", &webhook, &turn("hmac"));
    assert_eq!((status, &told["field"]), (422, &json!("signature_type")));
    assert_eq!(server.stop().code(), Some(0));
}
