//! Where blocks of the paper begin and end, and what they ask for.

use anyhow::Result;
use terminal::exit::Failure;

pub const END: &str = "<!-- end -->";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    Table,
    Figure,
    /// All checks of the runs whose names begin so.
    Verdicts,
}

/// `<!-- table RUN WHAT [PART] -->`, or `<!-- verdicts PREFIX -->`, which has no WHAT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    pub shows: Shows,
    /// The name of a run's file without `.json.gz`, or what those of several begin with.
    pub run: &'a str,
    /// A row of the catalogue, or a kind of table.
    pub what: &'a str,
    /// One of several, by its number or its name.
    pub part: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    Block(Block<'a>),
}

impl<'a> Block<'a> {
    /// `None`: the line begins no block.
    fn of(line: &'a str) -> Option<Result<Block<'a>>> {
        let words = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        let shows = match words.first() {
            Some(&"table") => Shows::Table,
            Some(&"figure") => Shows::Figure,
            Some(&"verdicts") => Shows::Verdicts,
            _ => return None,
        };
        let (run, what, part) = match words[1..] {
            [prefix] if shows == Shows::Verdicts => (prefix, "", None),
            _ if shows == Shows::Verdicts => {
                let sentence = format!("{line:?} asks for nothing: write <!-- verdicts PREFIX -->");
                return Some(Err(Failure::usage(sentence).into()));
            }
            [run, what] => (run, what, None),
            [run, what, part] => (run, what, Some(part)),
            _ => {
                let sentence = format!(
                    "{line:?} asks for nothing: write <!-- table RUN WHAT --> or <!-- figure RUN WHAT -->"
                );
                return Some(Err(Failure::usage(sentence).into()));
            }
        };
        Some(Ok(Block {
            shows,
            run,
            what,
            part,
        }))
    }

    pub fn begin(&self) -> String {
        let shows = match self.shows {
            Shows::Table => "table",
            Shows::Figure => "figure",
            Shows::Verdicts => return format!("<!-- verdicts {} -->", self.run),
        };
        let part = self.part.map_or(String::new(), |part| format!(" {part}"));
        format!("<!-- {shows} {} {}{part} -->", self.run, self.what)
    }
}

/// The text between blocks as it is, and the blocks without what stands in them.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    let mut open: Option<Block> = None;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match &open {
            Some(_) if line.trim() == END => {
                pieces.extend(open.take().map(Piece::Block));
                from = end;
            }
            Some(block) if Block::of(line).is_some() => return Err(endless(block)),
            Some(_) => {}
            None => {
                if let Some(block) = Block::of(line) {
                    open = Some(block?);
                    pieces.push(Piece::Text(&text[from..at]));
                }
            }
        }
        at = end;
    }
    if let Some(block) = open {
        return Err(endless(&block));
    }
    pieces.push(Piece::Text(&text[from..]));
    Ok(pieces)
}

fn endless(block: &Block) -> anyhow::Error {
    Failure::usage(format!(
        "{} has no end: write {END} below it",
        block.begin()
    ))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_block_is_no_text() {
        let text = "a\n<!-- figure zcp-grid Z8 100MBs -->\nold\n<!-- end -->\nb\n<!-- note -->";
        let found = pieces(text).expect("sound");
        let block = Block {
            shows: Shows::Figure,
            run: "zcp-grid",
            what: "Z8",
            part: Some("100MBs"),
        };
        assert_eq!(block.begin(), "<!-- figure zcp-grid Z8 100MBs -->");
        let wanted = [
            Piece::Text("a\n"),
            Piece::Block(block),
            Piece::Text("b\n<!-- note -->"),
        ];
        assert_eq!(found, wanted);
        assert!(pieces("<!-- table a b -->\n<!-- table a b -->\n<!-- end -->").is_err());
    }
}
