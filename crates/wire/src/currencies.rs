//! The currencies of ISO 4217, with the codes for testing (XTS) and for none (XXX).
//!
//! Codes that left the list lately stay, so that a scheme can wind down what it has in them.

use holdfast_domain::ids::Currency;

/// In order, so that they can be searched.
#[rustfmt::skip]
const ISO_4217: [[u8; 3]; 183] = [
    *b"AED", *b"AFN", *b"ALL", *b"AMD", *b"ANG", *b"AOA", *b"ARS", *b"AUD", *b"AWG", *b"AZN", *b"BAM", *b"BBD", *b"BDT",
    *b"BGN", *b"BHD", *b"BIF", *b"BMD", *b"BND", *b"BOB", *b"BOV", *b"BRL", *b"BSD", *b"BTN", *b"BWP", *b"BYN", *b"BZD",
    *b"CAD", *b"CDF", *b"CHE", *b"CHF", *b"CHW", *b"CLF", *b"CLP", *b"CNY", *b"COP", *b"COU", *b"CRC", *b"CUC", *b"CUP",
    *b"CVE", *b"CZK", *b"DJF", *b"DKK", *b"DOP", *b"DZD", *b"EGP", *b"ERN", *b"ETB", *b"EUR", *b"FJD", *b"FKP", *b"GBP",
    *b"GEL", *b"GHS", *b"GIP", *b"GMD", *b"GNF", *b"GTQ", *b"GYD", *b"HKD", *b"HNL", *b"HRK", *b"HTG", *b"HUF", *b"IDR",
    *b"ILS", *b"INR", *b"IQD", *b"IRR", *b"ISK", *b"JMD", *b"JOD", *b"JPY", *b"KES", *b"KGS", *b"KHR", *b"KMF", *b"KPW",
    *b"KRW", *b"KWD", *b"KYD", *b"KZT", *b"LAK", *b"LBP", *b"LKR", *b"LRD", *b"LSL", *b"LYD", *b"MAD", *b"MDL", *b"MGA",
    *b"MKD", *b"MMK", *b"MNT", *b"MOP", *b"MRU", *b"MUR", *b"MVR", *b"MWK", *b"MXN", *b"MXV", *b"MYR", *b"MZN", *b"NAD",
    *b"NGN", *b"NIO", *b"NOK", *b"NPR", *b"NZD", *b"OMR", *b"PAB", *b"PEN", *b"PGK", *b"PHP", *b"PKR", *b"PLN", *b"PYG",
    *b"QAR", *b"RON", *b"RSD", *b"RUB", *b"RWF", *b"SAR", *b"SBD", *b"SCR", *b"SDG", *b"SEK", *b"SGD", *b"SHP", *b"SLE",
    *b"SLL", *b"SOS", *b"SRD", *b"SSP", *b"STN", *b"SVC", *b"SYP", *b"SZL", *b"THB", *b"TJS", *b"TMT", *b"TND", *b"TOP",
    *b"TRY", *b"TTD", *b"TWD", *b"TZS", *b"UAH", *b"UGX", *b"USD", *b"USN", *b"UYI", *b"UYU", *b"UYW", *b"UZS", *b"VED",
    *b"VES", *b"VND", *b"VUV", *b"WST", *b"XAF", *b"XAG", *b"XAU", *b"XBA", *b"XBB", *b"XBC", *b"XBD", *b"XCD", *b"XCG",
    *b"XDR", *b"XOF", *b"XPD", *b"XPF", *b"XPT", *b"XSU", *b"XTS", *b"XUA", *b"XXX", *b"YER", *b"ZAR", *b"ZMW", *b"ZWG",
    *b"ZWL",
];

/// The letters of all of them.
pub(crate) fn all() -> impl Iterator<Item = String> {
    ISO_4217.iter().map(|letters| letters.iter().copied().map(char::from).collect())
}

/// The currency of these letters, if the standard knows it.
#[must_use]
pub fn currency(text: &str) -> Option<Currency> {
    let letters = <[u8; 3]>::try_from(text.as_bytes()).ok()?;
    ISO_4217.binary_search(&letters).ok()?;
    Currency::from_letters(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(ISO_4217.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn currencies_are_those_of_the_list() {
        for good in ["USD", "EUR", "TZS", "XOF", "XTS", "XXX", "AED", "ZWL"] {
            assert_eq!(currency(good).unwrap().to_string(), good);
        }
        for bad in ["", "usd", "Usd", "US", "USDX", "ZZZ", "AAA", "U\u{20AC}", "840"] {
            assert_eq!(currency(bad), None, "{bad}");
        }
    }
}
