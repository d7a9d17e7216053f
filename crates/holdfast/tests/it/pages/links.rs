//! Links between pages lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Every page of the repository.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages =
        vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("crates/tokens/README.md")];
    for folder in ["docs", "docs/decisions", "scenarios"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder of pages");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages
}

/// The targets of a page's links, those to other sites left out.
fn links(text: &str) -> Vec<&str> {
    let after = text.split("](").skip(1);
    after
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link)
        .filter(|link| !link.contains("://"))
        .collect()
}

/// A heading's name in a link, as the usual viewers make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    for page in pages(&root) {
        let text = fs::read_to_string(&page).expect("a page");
        for link in links(&text) {
            let (file, heading) =
                link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            let target =
                if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let leads = target.exists()
                && heading.is_none_or(|heading| {
                    let text = fs::read_to_string(&target).expect("a page");
                    text.lines()
                        .any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading)
                });
            if !leads {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn headings_become_anchors() {
    assert_eq!(anchor(" Who is told what"), "who-is-told-what");
    assert_eq!(anchor(" What the nodes promise, and by what"), "what-the-nodes-promise-and-by-what");
    assert_eq!(links("a [b](c.md#d) [e](https://f) ![g](h.svg)"), ["c.md#d", "h.svg"]);
}
