//! What breaks when a block is pasted into an interactive shell, or run a second time, found without one.

/// Names that zsh keeps for itself.
const TAKEN_BY_ZSH: [&str; 5] = ["status", "path", "argv", "options", "signals"];

/// Every reason why a line does not do in both shells.
pub(super) fn faults(block: &str) -> Vec<String> {
    block
        .lines()
        .flat_map(|line| faults_of(line).into_iter().map(move |fault| format!("{fault}: {line}")))
        .collect()
}

fn faults_of(line: &str) -> Vec<&'static str> {
    let bare = without_quotes(line);
    let mut faults = Vec::new();
    if bare.starts_with('#') || bare.contains(" #") {
        faults.push("zsh takes a comment for words");
    }
    if bare.split_whitespace().any(|word| word.starts_with('=')) {
        faults.push("zsh takes =word for the path of a program");
    }
    if bare.contains(['?', '*', '[', '^', '~']) && !bare.contains("$?") {
        faults.push("zsh refuses a pattern that matches no file");
    }
    if line.contains('!') && !line.contains("$!") {
        faults.push("an interactive shell takes ! for its history");
    }
    if bare.split_whitespace().any(|word| word == "pkill" || word == "killall") {
        faults.push("it ends what the reader did not start here");
    }
    if bare.split_whitespace().any(|word| word == "alias") {
        faults.push("a script knows no aliases");
    }
    if let Some((name, _)) = bare.split_once('=')
        && TAKEN_BY_ZSH.contains(&name)
    {
        faults.push("zsh keeps that name for itself");
    }
    faults
}

/// The line with what stands in quotes left out.
fn without_quotes(line: &str) -> String {
    let mut open = None;
    let mut bare = String::new();
    for letter in line.chars() {
        match (open, letter) {
            (None, '"' | '\'') => open = Some(letter),
            (Some(quote), letter) if letter == quote => open = None,
            (Some(_), _) => {}
            (None, letter) => bare.push(letter),
        }
    }
    bare
}

#[test]
fn what_breaks_is_found() {
    for bad in [
        "holdfast serve # the hub",
        "# the hub",
        "curl localhost/a?b=1",
        "ls *.md",
        "echo =holdfast",
        "echo done!",
        "pkill -9 -f holdfast",
        "alias holdfast=target/release/holdfast",
        "status=1",
    ] {
        assert_eq!(faults(bad).len(), 1, "{bad}: {:?}", faults(bad));
    }
    for good in ["curl \"localhost/a?b=1\"", "hub=$!", "kill -9 $hub", "a --to bob=90", "echo '# no comment'"]
    {
        assert_eq!(faults(good), [""; 0], "{good}");
    }
}
