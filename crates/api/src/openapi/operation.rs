//! One verb on one path, said in a few chained words and written as OpenAPI.

use axum::http::Method;
use holdfast_domain::shop::limits::{ITEMS_MAX, USERS_MAX};
use holdfast_wire::admin::{MovementId, ParticipantName};
use holdfast_wire::limits::{PAGE_ROWS_MAX, SHOP_INIT_MAX, SHOP_NUMBER_MAX};
use holdfast_wire::schema::Shape;
use holdfast_wire::{Count, JsonSchema, Name};
use serde_json::{Map, Value, json};

use super::schemas::{json_of, reference, transfer_id};
use crate::gate::Access;
use crate::problem::PROBLEM_JSON;

/// A verb on a path.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    summary: &'static str,
    details: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Map<String, Value>,
    /// Schemas that it speaks of, by name.
    pub(super) named: Map<String, Value>,
}

/// Begins the description of a verb on a path.
pub(super) fn operation(method: Method, path: &'static str, summary: &'static str) -> Operation {
    let (details, body, parameters, answers, named) = (None, None, Vec::new(), Map::new(), Map::new());
    Operation { method, path, summary, details, parameters, body, answers, named }
}

impl Operation {
    pub(super) fn details(mut self, details: &'static str) -> Operation {
        self.details = Some(details);
        self
    }

    /// A query parameter that may be left out.
    pub(super) fn query<T: JsonSchema>(self, name: &str, what: &str) -> Operation {
        self.parameter("query", name, false, what, &shape::<T>())
    }

    /// A query parameter that must be there.
    pub(super) fn needed<T: JsonSchema>(self, name: &str, what: &str) -> Operation {
        self.parameter("query", name, true, what, &shape::<T>())
    }

    /// The parameters of every list.
    pub(super) fn paged<After: JsonSchema>(self) -> Operation {
        self.query::<After>("after", "The `next` of the page before")
            .query::<Rows>("limit", "Rows of the page, at most 1,000")
    }

    /// A header of the request.
    pub(super) fn header(self, name: &str, required: bool, what: &str, schema: &Value) -> Operation {
        self.parameter("header", name, required, what, schema)
    }

    fn parameter(mut self, place: &str, name: &str, required: bool, what: &str, schema: &Value) -> Operation {
        self.parameters.push(
            json!({"name": name, "in": place, "required": required, "description": what, "schema": schema}),
        );
        self
    }

    /// A JSON body of this shape.
    pub(super) fn takes<T: JsonSchema>(mut self) -> Operation {
        let schema = self.schema(&Shape::taken::<T>());
        self.takes_as(&["application/json"], &schema)
    }

    /// The schema of a shape; those that it names go into the document with the operation.
    fn schema(&mut self, shape: &Shape) -> Value {
        let (schema, named) = shape.schema();
        self.named.extend(named);
        schema
    }

    /// An answer with a JSON body of this shape.
    pub(super) fn gives<T: JsonSchema>(mut self, status: u16, what: &str) -> Operation {
        let schema = self.schema(&Shape::given::<T>());
        self.answers_with(status, what, &schema)
    }

    /// A refusal as RFC 9457 has it.
    pub(super) fn refuses_with<T: JsonSchema>(mut self, status: u16, names: &str) -> Operation {
        let schema = self.schema(&Shape::given::<T>());
        self.answers_as(status, names, PROBLEM_JSON, &schema)
    }

    /// A body of one of these media types.
    pub(super) fn takes_as(mut self, media_types: &[&str], schema: &Value) -> Operation {
        let content: Map<String, Value> =
            media_types.iter().map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect();
        self.body = Some(json!({"required": true, "content": content}));
        self
    }

    /// An answer without a body.
    pub(super) fn answers(mut self, status: u16, what: &str) -> Operation {
        self.answers.insert(status.to_string(), json!({"description": what}));
        self
    }

    /// An answer with a JSON body.
    pub(super) fn answers_with(mut self, status: u16, what: &str, schema: &Value) -> Operation {
        self.answers.insert(status.to_string(), json!({"description": what, "content": json_of(schema)}));
        self
    }

    /// An answer of another media type.
    pub(super) fn answers_as(
        mut self,
        status: u16,
        what: &str,
        media_type: &str,
        schema: &Value,
    ) -> Operation {
        let content = json!({media_type: {"schema": schema}});
        self.answers.insert(status.to_string(), json!({"description": what, "content": content}));
        self
    }

    /// A refusal: `errorInformation` with the codes named in `what`.
    pub(super) fn refuses(self, status: u16, what: &str) -> Operation {
        self.answers_with(status, what, &reference("ErrorInformation"))
    }

    /// The answers of every path that asks the hub's writer.
    pub(super) fn asks_the_hub(mut self) -> Operation {
        for (status, name) in [("503", "Unavailable"), ("504", "NoAnswer")] {
            self.answers.insert(status.to_owned(), json!({"$ref": format!("#/components/responses/{name}")}));
        }
        self
    }

    /// The operation object of the document.
    pub(super) fn describe(mut self, tag: &str, access: Access) -> Value {
        let mut parameters: Vec<Value> = path_parameters(self.path);
        parameters.append(&mut self.parameters);
        let common: &[(&str, &str)] = match access {
            Access::Open => &[("429", "TooMany")],
            _ => &[("401", "KeyNeeded"), ("403", "KeyOfAnother"), ("429", "TooMany")],
        };
        for (status, name) in common {
            let common = json!({"$ref": format!("#/components/responses/{name}")});
            self.answers.entry(*status).or_insert(common);
        }
        let mut answers: Vec<_> = self.answers.into_iter().collect();
        answers.sort_by(|one, other| one.0.cmp(&other.0));
        let description = match self.details {
            None => access.words().to_owned(),
            Some(details) => format!("{details}\n\n{}", access.words()),
        };
        let mut members = json!({
            "tags": [tag],
            "operationId": operation_id(&self.method, self.path),
            "summary": self.summary,
            "description": description,
            "parameters": parameters,
        });
        if let Some(body) = self.body {
            members["requestBody"] = body;
        }
        members["responses"] = Value::Object(answers.into_iter().collect());
        members["security"] = match access {
            Access::Open => json!([]),
            _ => json!([{"bearer": []}, {"apiKey": []}]),
        };
        members
    }
}

/// `GET /hub/transfers/{id}` is `getHubTransfersById`.
fn operation_id(method: &Method, path: &str) -> String {
    let mut id = method.as_str().to_lowercase();
    for word in path.split(['/', '-', '.']).filter(|word| !word.is_empty()) {
        let word = match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            None => word,
            Some(parameter) => {
                id.push_str("By");
                parameter
            }
        };
        let mut letters = word.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id
}

/// The schema of a parameter.
fn shape<T: JsonSchema>() -> Value {
    Shape::taken::<T>().schema().0
}

type Rows = Count<1, { PAGE_ROWS_MAX as u64 }>;
type ShopNumber = Count<0, SHOP_NUMBER_MAX>;

/// The parameters in the braces of a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names
        .map(|name| {
            let (what, schema) = path_parameter(path, name);
            json!({"name": name, "in": "path", "required": true, "description": what, "schema": schema})
        })
        .collect()
}

fn path_parameter(path: &str, name: &str) -> (&'static str, Value) {
    match name {
        "name" => ("A participant's name; case does not matter", shape::<ParticipantName>()),
        "number" => ("The number of a callback", shape::<ShopNumber>()),
        "transferId" => ("The id of the movement of funds", shape::<MovementId>()),
        "spender" => ("Who has selected; 1 to 128 characters", shape::<Name>()),
        "order" | "order_id" => ("The id of an order; 1 to 128 characters", shape::<Name>()),
        "user_id" => ("The id of a user; 1 to 128 characters", shape::<Name>()),
        "item_id" => ("The id of an item; 1 to 128 characters", shape::<Name>()),
        "tr" => ("The number of a try, from 1", shape::<Count<1, { u32::MAX as u64 }>>()),
        "n" => ("How many; at most 1,000,000", shape::<Count<0, SHOP_INIT_MAX>>()),
        "n_items" => {
            ("Lines are of items 0 to this, not included", shape::<Count<0, { ITEMS_MAX as u64 }>>())
        }
        "n_users" => {
            ("Orders are of users 0 to this, not included", shape::<Count<0, { USERS_MAX as u64 }>>())
        }
        "amount" | "quantity" | "price" | "item_price" | "starting_money" | "starting_stock" => {
            ("A whole number from 0 to 9223372036854775807", shape::<ShopNumber>())
        }
        "id" if path.contains("/accounts/") => {
            ("The number of an account", shape::<Count<0, { u32::MAX as u64 }>>())
        }
        _ => ("The id of a transfer, a UUID in lower case", transfer_id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_verb_and_path() {
        assert_eq!(operation_id(&Method::GET, "/hub/transfers/{id}"), "getHubTransfersById");
        assert_eq!(operation_id(&Method::GET, "/openapi.json"), "getOpenapiJson");
        assert_eq!(
            operation_id(&Method::POST, "/hub/dead-letters/{id}/retry"),
            "postHubDeadLettersByIdRetry"
        );
    }
}
