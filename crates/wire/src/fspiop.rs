//! What the standard says the same way in answers and in callbacks: errors, dates and the letters of a fulfilment.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_domain::ids::Millis;
use serde_json::{Value, json};

/// The fixed form of an instant, for messages that came without a date.
#[must_use]
pub fn http_date(at: Millis) -> String {
    let instant = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    instant.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The letters of a fulfilment.
#[must_use]
pub fn write_preimage(bytes: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The name that the standard gives a code; codes of a scheme or a payee get that of their group.
#[must_use]
pub const fn code_name(code: u16) -> &'static str {
    match code {
        1001 => "Destination communication error",
        1000..=1999 => "Communication error",
        2001 => "Internal server error",
        2002 => "Not implemented",
        2003 => "Service currently unavailable",
        2004 => "Server timed out",
        2005 => "Server busy",
        2000..=2999 => "Generic server error",
        3001 => "Unacceptable version requested",
        3002 => "Unknown URI",
        3003 => "Add Party information error",
        3000..=3099 => "Generic client error",
        3101 => "Malformed syntax",
        3102 => "Missing mandatory element",
        3103 => "Too many elements",
        3104 => "Too large payload",
        3105 => "Invalid signature",
        3106 => "Modified request",
        3107 => "Missing mandatory extension parameter",
        3100..=3199 => "Generic validation error",
        3201 => "Destination FSP Error",
        3202 => "Payer FSP ID not found",
        3203 => "Payee FSP ID not found",
        3208 => "Transfer ID not found",
        3200..=3299 => "Generic ID not found",
        3302 => "Quote expired",
        3303 => "Transfer expired",
        3300..=3399 => "Generic expired error",
        4001 => "Payer FSP insufficient liquidity",
        4000..=4099 => "Generic Payer error",
        4100..=4199 => "Generic Payer rejection",
        4200..=4299 => "Payer limit error",
        4300..=4399 => "Payer permission error",
        4400..=4499 => "Generic Payer blocked error",
        5001 => "Payee FSP insufficient liquidity",
        5000..=5099 => "Generic Payee error",
        5104 => "Payee rejected transaction",
        5105 => "Payee FSP rejected transaction",
        5106 => "Payee unsupported currency",
        5100..=5199 => "Generic Payee rejection",
        5200..=5299 => "Payee limit error",
        5300..=5399 => "Payee permission error",
        5400..=5499 => "Generic Payee blocked error",
        _ => "Error",
    }
}

/// Descriptions are cut to what the standard allows.
const DESCRIPTION_CHARS_MAX: usize = 128;

/// The body `{"errorInformation":{…}}` of a code and what there is to say about it.
#[must_use]
pub fn error_information(code: u16, detail: &str, extensions: &[(String, String)]) -> Value {
    let name = code_name(code);
    let description = if detail.is_empty() { name.to_owned() } else { format!("{name} - {detail}") };
    let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let mut information = json!({"errorCode": code.to_string(), "errorDescription": description});
    if !extensions.is_empty() {
        let list: Vec<Value> =
            extensions.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        information["extensionList"] = json!({"extension": list});
    }
    json!({"errorInformation": information})
}
