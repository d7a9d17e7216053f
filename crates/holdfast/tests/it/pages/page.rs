//! The fenced blocks of a Markdown page.

/// A page's blocks, in order.
pub(super) struct Page {
    pub(super) blocks: Vec<Block>,
}

pub(super) struct Block {
    /// Of its first line of text.
    pub(super) line: usize,
    pub(super) text: String,
    /// It is for a shell.
    pub(super) runs: bool,
    /// Its last command does not end by itself.
    pub(super) stays: bool,
}

impl Page {
    pub(super) fn read(text: &str) -> Page {
        let mut blocks: Vec<Block> = Vec::new();
        let mut inside = false;
        for (index, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), inside) {
                (Some(info), false) => {
                    let runs = info.split_whitespace().next() == Some("sh");
                    let stays = info.contains("foreground");
                    blocks.push(Block { line: index + 2, text: String::new(), runs, stays });
                    inside = true;
                }
                (Some(_), true) => inside = false,
                (None, true) => blocks.last_mut().expect("one is open").text += &format!("{line}\n"),
                (None, false) => {}
            }
        }
        Page { blocks }
    }

    /// What is pasted into one terminal, one block after another.
    pub(super) fn ending(&self) -> String {
        self.blocks
            .iter()
            .filter(|block| block.runs && !block.stays)
            .map(|block| block.text.as_str())
            .collect()
    }
}

#[test]
fn blocks_are_what_stands_between_fences() {
    let page = Page::read("a\n```\nx\n```\nb\n```sh\ny\nz\n```\n```sh foreground\nw\n```\n");
    let seen: Vec<_> =
        page.blocks.iter().map(|block| (block.line, &*block.text, block.runs, block.stays)).collect();
    assert_eq!(seen, [(3, "x\n", false, false), (7, "y\nz\n", true, false), (11, "w\n", true, true)]);
    assert_eq!(page.ending(), "y\nz\n");
}
