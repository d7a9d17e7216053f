//! One verb on one path: its handler, who may call it, and what it takes and answers, said in a few chained words and
//! written as OpenAPI.

use std::collections::BTreeMap;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use holdfast_domain::shop::limits::{ITEMS_MAX, USERS_MAX};
use holdfast_wire::admin::{MovementId, ParticipantName};
use holdfast_wire::limits::{PAGE_ROWS_MAX, SHOP_INIT_MAX, SHOP_NUMBER_MAX};
use holdfast_wire::schema::Shape;
use holdfast_wire::{Count, JsonSchema, Name};
use serde_json::{Map, Value, json};

use super::schemas::{reference, transfer_id};
use crate::gate::Access;
use crate::problem::PROBLEM_JSON;
use crate::routes::Handled;

pub(super) const GET: Method = Method::GET;
pub(super) const POST: Method = Method::POST;
pub(super) const PUT: Method = Method::PUT;

const JSON: &str = "application/json";

/// An answer, and the media type and shape of its body.
type Answer = (Value, Option<(&'static str, Shape)>);

/// A verb on a path. Schemas of shapes are made when the document is.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Who may call it.
    pub(crate) access: Access,
    pub(crate) handler: Handled,
    summary: &'static str,
    details: Option<&'static str>,
    parameters: Vec<(Value, Shape)>,
    /// The media types of its body, and what they carry.
    body: Option<(&'static [&'static str], Shape)>,
    answers: BTreeMap<u16, Answer>,
    /// What it speaks of, in the order in which the document names it.
    shapes: Vec<Shape>,
}

/// Begins the row of a verb on a path, for operators. `served`: in which profiles, and so before what.
pub(super) fn operation<H, T, S>(
    served: fn(MethodRouter<S>) -> Handled,
    method: Method,
    path: &'static str,
    handler: H,
    summary: &'static str,
) -> Operation
where
    H: Handler<T, S>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("the table has common verbs only");
    let (access, handler) = (Access::Operator, served(on(filter, handler)));
    let (details, body, parameters, answers, shapes) = (None, None, Vec::new(), BTreeMap::new(), Vec::new());
    Operation { method, path, access, handler, summary, details, parameters, body, answers, shapes }
}

impl Operation {
    /// For callers of another kind.
    pub(super) fn open_to(self, access: Access) -> Operation {
        Operation { access, ..self }
    }

    pub(super) fn details(self, details: &'static str) -> Operation {
        Operation { details: Some(details), ..self }
    }

    /// A query parameter that may be left out.
    pub(super) fn query<T: JsonSchema>(self, name: &str, what: &str) -> Operation {
        self.parameter("query", name, false, what, Shape::taken::<T>())
    }

    /// A query parameter that must be there.
    pub(super) fn needed<T: JsonSchema>(self, name: &str, what: &str) -> Operation {
        self.parameter("query", name, true, what, Shape::taken::<T>())
    }

    /// The parameters of every list.
    pub(super) fn paged<After: JsonSchema>(self) -> Operation {
        self.query::<After>("after", "The `next` of the page before")
            .query::<Rows>("limit", "Rows of the page, at most 1,000")
    }

    /// A header of the request.
    pub(super) fn header(self, name: &str, required: bool, what: &str, schema: Value) -> Operation {
        self.parameter("header", name, required, what, Shape::written(schema))
    }

    fn parameter(mut self, place: &str, name: &str, required: bool, what: &str, shape: Shape) -> Operation {
        let parameter = json!({"name": name, "in": place, "required": required, "description": what});
        self.parameters.push((parameter, shape));
        self
    }

    /// A JSON body of this shape.
    pub(super) fn takes<T: JsonSchema>(self) -> Operation {
        self.takes_as(&[JSON], Shape::taken::<T>())
    }

    /// A body of one of these media types.
    pub(super) fn takes_as(mut self, media_types: &'static [&'static str], shape: Shape) -> Operation {
        self.shapes.push(shape.clone());
        self.body = Some((media_types, shape));
        self
    }

    /// An answer without a body.
    pub(super) fn answers(mut self, status: u16, what: &str) -> Operation {
        self.answers.insert(status, (json!({"description": what}), None));
        self
    }

    /// An answer with a JSON body of this shape.
    pub(super) fn gives<T: JsonSchema>(self, status: u16, what: &str) -> Operation {
        self.answers_as(status, what, JSON, Shape::given::<T>())
    }

    /// An answer with a JSON body.
    pub(super) fn answers_with(self, status: u16, what: &str, schema: Value) -> Operation {
        self.answers_as(status, what, JSON, Shape::written(schema))
    }

    /// An answer of another media type.
    pub(super) fn answers_as(
        mut self,
        status: u16,
        what: &str,
        media_type: &'static str,
        shape: Shape,
    ) -> Operation {
        self.shapes.push(shape.clone());
        self.answers.insert(status, (json!({"description": what}), Some((media_type, shape))));
        self
    }

    /// A refusal as RFC 9457 has it.
    pub(super) fn refuses_with<T: JsonSchema>(self, status: u16, names: &str) -> Operation {
        self.answers_as(status, names, PROBLEM_JSON, Shape::given::<T>())
    }

    /// A refusal: `errorInformation` with the codes named in `what`.
    pub(super) fn refuses(self, status: u16, what: &str) -> Operation {
        self.answers_with(status, what, reference("ErrorInformation"))
    }

    /// The answers of every path that asks the hub's writer.
    pub(super) fn asks_the_hub(mut self) -> Operation {
        self.answers.extend([(503, common("Unavailable")), (504, common("NoAnswer"))]);
        self
    }

    /// The operation object of the document. The schemas that it names go into `named`.
    pub(super) fn describe(mut self, tag: &str, named: &mut Map<String, Value>) -> Value {
        self.shapes.iter().for_each(|shape| named.extend(shape.schema().1));
        let parameters = self.parameters.into_iter().map(|(mut parameter, shape)| {
            parameter["schema"] = shape.schema().0;
            parameter
        });
        let parameters: Vec<Value> = path_parameters(self.path).into_iter().chain(parameters).collect();
        let description = match self.details {
            None => self.access.words().to_owned(),
            Some(details) => format!("{details}\n\n{}", self.access.words()),
        };
        let mut members = json!({
            "tags": [tag],
            "operationId": operation_id(&self.method, self.path),
            "summary": self.summary,
            "description": description,
            "parameters": parameters,
        });
        if let Some((media_types, shape)) = self.body {
            let content = media_types.iter().map(|kind| content(kind, &shape));
            members["requestBody"] = json!({"required": true, "content": Map::from_iter(content)});
        }
        let (of_all, security) = match self.access {
            Access::Open => (&[(429, "TooMany")][..], json!([])),
            _ => (
                &[(401, "KeyNeeded"), (403, "KeyOfAnother"), (429, "TooMany")][..],
                json!([{"bearer": []}, {"apiKey": []}]),
            ),
        };
        for (status, name) in of_all {
            self.answers.entry(*status).or_insert_with(|| common(name));
        }
        let answers = self.answers.into_iter().map(|(status, (mut answer, body))| {
            if let Some((kind, shape)) = body {
                answer["content"] = Value::Object(Map::from_iter([content(kind, &shape)]));
            }
            (status.to_string(), answer)
        });
        members["responses"] = Value::Object(answers.collect());
        members["security"] = security;
        members
    }
}

/// An answer that other paths give as well, by its name.
fn common(name: &str) -> Answer {
    (json!({"$ref": format!("#/components/responses/{name}")}), None)
}

/// What a body of that media type carries.
fn content(media_type: &str, shape: &Shape) -> (String, Value) {
    (media_type.to_owned(), json!({"schema": shape.schema().0}))
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
