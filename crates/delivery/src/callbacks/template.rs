//! Registered addresses are Mustache templates of which participants use one tag: `{{transferId}}`.

/// The address with the transfer's id in its place. As in Mustache, spaces inside a tag mean nothing and a name that
/// is not known stands for nothing. Nothing is appended.
pub(super) fn render(template: &str, transfer_id: &str) -> String {
    let mut url = String::with_capacity(template.len() + transfer_id.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        url.push_str(before);
        let Some((name, behind)) = after.split_once("}}") else {
            url.push_str("{{");
            rest = after;
            continue;
        };
        // `{{{name}}}` and `{{&name}}` are Mustache's forms without HTML escapes; an id has nothing to escape.
        let (name, behind) = match name.strip_prefix('{') {
            Some(name) => (name, behind.strip_prefix('}').unwrap_or(behind)),
            None => (name.strip_prefix('&').unwrap_or(name), behind),
        };
        if name.trim() == "transferId" {
            url.push_str(transfer_id);
        }
        rest = behind;
    }
    url.push_str(rest);
    url
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn the_id_takes_the_place_of_its_tag() {
        let cases = [
            ("http://h/transfers", "http://h/transfers"),
            ("http://h/transfers/{{transferId}}", "http://h/transfers/ID"),
            ("http://h/transfers/{{ transferId }}/error", "http://h/transfers/ID/error"),
            ("http://h/{{{transferId}}}?again={{&transferId}}", "http://h/ID?again=ID"),
            ("http://h/{{other}}/{{transferId}}", "http://h//ID"),
            ("http://h/{transferId}", "http://h/{transferId}"),
            ("http://h/{{transferId", "http://h/{{transferId"),
        ];
        for (template, url) in cases {
            assert_eq!(render(template, "ID"), url);
        }
    }
}
