//! Description of the API in OpenAPI 3.0, made from the rows of the routes and the components.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::components::components;
use crate::routes::interface::RouteParameter::{InHeader, InPath, InQuery, Needed};
use crate::routes::interface::RouteReply::{Empty, File, Json, Refused, Retry, Typed, WithHeader};
use crate::routes::interface::{JSON, MediaSchema, RouteBody, RouteParameter, RouteReply};
use crate::routes::{Operation, RouteSpec, routes};
use crate::schema::JsonSchema::{Bytes, Named, Text, WholeFrom};
use crate::schema::{JsonSchema, described};

static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}", document()));

const ABOUT: &str = "Streams, state and metrics of a running engine (weir serve). On a loopback address any client of \
    the machine may ask. With tokens or a proxy that authenticates, clients send Authorization: Bearer TOKEN, the cookie \
    of a session, or come by the proxy; each has a role (view, operate, edit), and 403 names the role that is missing. \
    /healthz needs none. Each operation has the least role in x-role; x-scope says which cameras it concerns: clients \
    that are limited to some cameras are refused where it is engine.";

const NO_TOKEN: &str = "No token, or another one, where one is needed.";

const NOT_ALLOWED: &str = "Not allowed: the role of the client does not suffice, it does not see the camera, the header \
    Host names another machine, or a page of another site asks.";

const NOT_RUNNING: &str = "The engine is starting or stopping.";

const TOO_SLOW: &str = "The answer took longer than 30 s.";

const SESSION_ABOUT: &str = "Opened by POST /api/session; the name ends with the port of the engine. Changes need the \
    header Origin or Sec-Fetch-Site of a page of this engine.";

/// Returns the description of the API in OpenAPI 3.0, as JSON.
#[must_use]
pub fn openapi() -> &'static str {
    &TEXT
}

fn document() -> Value {
    let mut paths = Map::new();
    for route in routes() {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.to_lowercase()] = operation(route);
    }
    let mut schemas = Map::new();
    for component in components() {
        let schema = described(component.2.to_json(), component.1);
        schemas.insert(component.0.to_owned(), schema);
    }
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Weir", "version": "1", "description": ABOUT },
        "security": [{}, { "token": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "weir-session-7400",
                    "description": SESSION_ABOUT,
                },
            },
        },
    })
}

fn operation(route: &RouteSpec) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "x-role": route.right.role.name(),
        "x-scope": route.right.scope.name(),
        "responses": replies(route),
    });
    if is_open(route) {
        operation["security"] = json!([{}]);
    }
    if !route.parameters.is_empty() {
        let parameters: Vec<Value> = route.parameters.iter().map(parameter).collect();
        operation["parameters"] = json!(parameters);
    }
    if let Some(body) = &route.body {
        operation["requestBody"] = request_body(body);
    }
    operation
}

/// True if clients need no means of authentication for a route.
fn is_open(route: &RouteSpec) -> bool {
    route.operation == Operation::Health
}

fn parameter(parameter: &RouteParameter) -> Value {
    let (place, name, schema, about, is_required) = match *parameter {
        InPath(name, about) => ("path", name, Text, about, true),
        InQuery(name, schema, about) => ("query", name, schema, about, false),
        Needed(name, schema, about) => ("query", name, schema, about, true),
        InHeader(name, schema, about) => ("header", name, schema, about, false),
    };
    let mut parameter =
        json!({ "name": name, "in": place, "description": about, "schema": schema.to_json() });
    if is_required {
        parameter["required"] = json!(true);
    }
    parameter
}

fn request_body(body: &RouteBody) -> Value {
    let mut value = described(json!({ "content": content(body.content) }), body.about);
    if body.is_required {
        value["required"] = json!(true);
    }
    value
}

fn content(types: &[MediaSchema]) -> Value {
    let mut content = Map::new();
    for MediaSchema(name, schema) in types {
        content.insert((*name).to_owned(), json!({ "schema": schema.to_json() }));
    }
    Value::Object(content)
}

/// Replies of a route by their status: those that all routes have, and its own instead of them.
fn replies(route: &RouteSpec) -> Value {
    let error = match route.operation {
        Operation::KServe(_) => Named("KServeError"),
        _ => Named("Error"),
    };
    let shows_video = matches!(route.operation, Operation::Watch | Operation::WatchAll);
    let mut replies = Map::new();
    if !is_open(route) {
        let mut add = |status: u16, about: &str| {
            replies.insert(status.to_string(), reply_with(about, &[MediaSchema(JSON, error)]));
        };
        add(401, NO_TOKEN);
        add(403, NOT_ALLOWED);
        if let Some(body) = &route.body {
            add(
                413,
                &format!("The body is longer than {}.", size_text(body.max_bytes)),
            );
        }
        if route.needs_engine {
            add(503, NOT_RUNNING);
        }
        if !shows_video {
            add(504, TOO_SLOW);
        }
    }
    for own in route.replies {
        let (status, value) = reply(own, error);
        replies.insert(status.to_string(), value);
    }
    Value::Object(replies)
}

fn reply(of: &RouteReply, error: JsonSchema) -> (u16, Value) {
    match *of {
        Json(status, about, schema) => (status, reply_with(about, &[MediaSchema(JSON, schema)])),
        File(status, about, name) => (status, reply_with(about, &[MediaSchema(name, Bytes)])),
        Typed(status, about, types) => (status, reply_with(about, types)),
        Empty(status, about) => (status, json!({ "description": about })),
        Refused(status, about) => (status, reply_with(about, &[MediaSchema(JSON, error)])),
        Retry(status, about) => {
            let value = reply_with(about, &[MediaSchema(JSON, error)]);
            let seconds = "Seconds after which to try again.";
            (status, with_header(value, "Retry-After", WholeFrom(0), seconds))
        }
        WithHeader(inner, name, schema, about) => {
            let (status, value) = reply(inner, error);
            (status, with_header(value, name, schema, about))
        }
    }
}

fn reply_with(about: &str, types: &[MediaSchema]) -> Value {
    json!({ "description": about, "content": content(types) })
}

fn with_header(mut reply: Value, name: &str, schema: JsonSchema, about: &str) -> Value {
    reply["headers"][name] = described(json!({ "schema": schema.to_json() }), about);
    reply
}

/// A size with its unit, which is KiB unless the size is a whole number of MiB.
fn size_text(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::backend::{
        DiscoverRequest, GraphCheck, GraphRequest, GraphSave, GraphUndo, StreamPatch, StreamRequest,
    };
    use crate::incidents::{IncidentChange, IncidentQuery};
    use crate::search::SearchQuery;

    #[test]
    fn description_in_docs_is_made_from_the_routes() {
        let docs: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
        assert!(
            docs == document(),
            "write it anew: weir openapi > docs/openapi.json"
        );
    }

    #[test]
    fn routes_are_complete_and_named_once() {
        let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
        for route in routes() {
            let at = format!("{} {}", route.method, route.path);
            assert!(places.insert(at.clone()), "{at} is there twice");
            assert!(ids.insert(route.id), "{at}: {} is there twice", route.id);
            assert!(!route.id.is_empty() && !route.summary.is_empty(), "{at}");
            let has_success = route.replies.iter().any(|own| reply(own, Text).0 < 400);
            assert!(has_success, "{at} has no reply that is no error");
        }
    }

    #[test]
    fn parameters_in_paths_are_those_of_the_rows() {
        for route in routes() {
            let in_path = route.path.split('{').skip(1);
            let in_path: Vec<&str> = in_path.filter_map(|rest| Some(rest.split_once('}')?.0)).collect();
            let in_row = route.parameters.iter().filter_map(|parameter| match parameter {
                InPath(name, _) => Some(*name),
                _ => None,
            });
            assert_eq!(in_path, in_row.collect::<Vec<_>>(), "{}", route.path);
        }
    }

    /// Names of all components that a value refers to.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        if let Some(name) = value["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            found.insert(name.to_owned());
        }
        let items = value.as_array().into_iter().flatten();
        let values = value.as_object().into_iter().flat_map(|object| object.values());
        for inner in items.chain(values) {
            references(inner, found);
        }
    }

    #[test]
    fn components_are_those_that_something_refers_to() {
        let mut found = BTreeSet::new();
        references(&document(), &mut found);
        let known: Vec<&str> = components().map(|component| component.0).collect();
        assert_eq!(known.len(), known.iter().collect::<BTreeSet<_>>().len());
        let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
        assert_eq!(found, known);
    }

    /// Keys that a type takes, as its refusal of an unknown key lists them.
    fn keys_of<T: DeserializeOwned>() -> BTreeSet<String> {
        let refused = serde_json::from_str::<T>("{\"surplus\": 0}").err().unwrap();
        let refused = refused.to_string();
        let (_, expected) = refused.split_once("expected").unwrap();
        expected
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn bodies_have_the_keys_that_requests_are_read_with() {
        let document = document();
        for (name, read) in [
            ("NewStream", keys_of::<StreamRequest>()),
            ("StreamPatch", keys_of::<StreamPatch>()),
            ("CameraSearch", keys_of::<DiscoverRequest>()),
            ("IncidentChange", keys_of::<IncidentChange>()),
            ("GraphText", keys_of::<GraphRequest>()),
            ("GraphCheck", keys_of::<GraphCheck>()),
            ("GraphSave", keys_of::<GraphSave>()),
            ("GraphUndo", keys_of::<GraphUndo>()),
        ] {
            let schema = &document["components"]["schemas"][name];
            let keys = schema["properties"].as_object().unwrap().keys().cloned();
            assert_eq!(keys.collect::<BTreeSet<_>>(), read, "{name}");
            assert_eq!(schema["additionalProperties"], json!(false), "{name}");
        }
    }

    #[test]
    fn queries_have_the_keys_that_requests_are_read_with() {
        for (path, read) in [
            ("/api/incidents", keys_of::<IncidentQuery>()),
            ("/api/search", keys_of::<SearchQuery>()),
        ] {
            let route = routes().find(|route| (route.method, route.path) == ("GET", path));
            let parameters = route.unwrap().parameters.iter();
            let keys = parameters.filter_map(|parameter| match parameter {
                InQuery(name, ..) | Needed(name, ..) => Some((*name).to_owned()),
                _ => None,
            });
            assert_eq!(keys.collect::<BTreeSet<_>>(), read, "{path}");
        }
    }
}
