//! docs/paper.md: prose by hand, and blocks of tables and figures that are made of kept runs.
//!
//! ```text
//!   <!-- table zcp-grid Z4 -->           docs/runs/zcp-grid.json.gz ─► its tables and checks ─► Markdown in the block
//!   <!-- end -->
//!   <!-- figure ramp-size R22 -->        docs/runs/ramp-size.json.gz ─► its plots ─► docs/figures/ramp-size-r22.svg
//!   <!-- end -->
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `kept` | runs that are kept, compressed or not |
//! | `blocks` | where blocks begin and end, and what they ask for |
//! | `parts` | the tables and plots of a run, by the words that ask for them |
//! | `values` | what a bench printed, as a table |
//! | `markdown` | a table, and where a number comes from, as Markdown |

mod blocks;
pub mod kept;
mod markdown;
mod parts;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use terminal::exit::{Failure, Kind};

use blocks::{Block, Piece, Shows};
use kept::Kept;

/// A page that everybody clones stays small: runs and figures together.
pub const BYTES_MAX: u64 = 5 << 20;

/// The paper as its runs have it.
pub struct Filled {
    pub text: String,
    /// By the names of their files.
    pub figures: BTreeMap<String, String>,
    pub blocks: usize,
}

/// Where the paper, its runs and its figures are.
pub struct Paper {
    docs: PathBuf,
}

impl Paper {
    pub fn at(docs: &Path) -> Paper {
        Paper {
            docs: docs.to_owned(),
        }
    }

    pub fn page(&self) -> PathBuf {
        self.docs.join("paper.md")
    }

    pub fn figures(&self) -> PathBuf {
        self.docs.join("figures")
    }

    pub fn runs(&self) -> PathBuf {
        self.docs.join("runs")
    }

    pub fn text(&self) -> Result<String> {
        let page = self.page();
        fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))
    }

    /// The figures that are there, by the names of their files.
    pub fn drawn(&self) -> Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        let Ok(files) = fs::read_dir(self.figures()) else {
            return Ok(all);
        };
        for file in files {
            let path = file?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".svg") {
                all.insert(name.into_owned(), fs::read_to_string(&path)?);
            }
        }
        Ok(all)
    }

    /// Errors: a block that names no run, or nothing of it; runs and figures that are too large together.
    pub fn filled(&self) -> Result<Filled> {
        let mut runs: BTreeMap<String, Kept> = BTreeMap::new();
        let mut filled = Filled {
            text: String::new(),
            figures: BTreeMap::new(),
            blocks: 0,
        };
        for piece in blocks::pieces(&self.text()?)? {
            let block = match piece {
                Piece::Text(text) => {
                    filled.text += text;
                    continue;
                }
                Piece::Block(block) => block,
            };
            if !runs.contains_key(block.run) {
                let path = self.runs().join(format!("{}.json.gz", block.run));
                runs.insert(block.run.to_owned(), Kept::read(&path)?);
            }
            let content = filled.content(&block, &runs[block.run])?;
            filled.text += &format!("{}\n\n{content}\n\n{}\n", block.begin(), blocks::END);
            filled.blocks += 1;
        }
        self.check_size(&filled)?;
        Ok(filled)
    }

    fn check_size(&self, filled: &Filled) -> Result<()> {
        let mut bytes: u64 = filled.figures.values().map(|svg| svg.len() as u64).sum();
        for file in fs::read_dir(self.runs())? {
            bytes += file?.metadata()?.len();
        }
        if bytes <= BYTES_MAX {
            return Ok(());
        }
        let sentence = format!(
            "runs and figures are {bytes} bytes together, and {BYTES_MAX} at most are kept: take figures out, or keep runs of fewer rounds"
        );
        Err(Failure::new(Kind::Refused, sentence).into())
    }
}

impl Filled {
    fn content(&mut self, block: &Block, kept: &Kept) -> Result<String> {
        let shown = match block.shows {
            Shows::Table => markdown::tables(&parts::tables(kept, block)?),
            Shows::Figure => self.drawn(block, kept)?,
        };
        Ok(format!("{shown}\n\n{}", markdown::origin(block.run, kept)))
    }

    fn drawn(&mut self, block: &Block, kept: &Kept) -> Result<String> {
        let mut shown = Vec::new();
        for plot in parts::plots(kept, block)? {
            let name = format!("{}-{}.svg", block.run, plot.name.to_lowercase());
            shown.push(format!("![{}](figures/{name})", plot.lines.title));
            self.figures.insert(name, plot.svg()?);
        }
        Ok(shown.join("\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs() -> Paper {
        Paper::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"))
    }

    /// Every number of a block can be traced to a run.
    #[test]
    fn the_paper_is_what_its_runs_give() {
        let paper = docs();
        let filled = paper.filled().expect("its blocks can be filled");
        let fill = "fill it with: logberg-lab paper";
        assert!(paper.text().expect("it is there") == filled.text, "{fill}");
        let drawn = paper.drawn().expect("figures");
        let names: Vec<&String> = drawn.keys().collect();
        assert_eq!(names, filled.figures.keys().collect::<Vec<_>>(), "{fill}");
        assert!(drawn == filled.figures, "{fill}");
    }

    #[test]
    fn every_kept_run_is_read_and_has_tables() {
        for file in fs::read_dir(docs().runs()).expect("runs") {
            let path = file.expect("a file").path();
            let kept = Kept::read(&path).expect("a run");
            assert!(!parts::known(&kept).is_empty(), "{}", path.display());
        }
    }

    #[test]
    fn a_block_that_cannot_be_filled_names_the_remedy() {
        let place = tempfile::tempdir().expect("a place");
        let paper = Paper::at(place.path());
        fs::create_dir(paper.runs()).expect("room");
        let run = docs().runs().join("mex-clients.json.gz");
        fs::copy(run, paper.runs().join("mex-clients.json.gz")).expect("room");
        for (block, said) in [
            ("table mex-clients M99", "it has"),
            ("figure mex-clients M15 7", "it has"),
            ("table absent M15", "absent.json.gz"),
            ("table mex-clients", "table RUN WHAT"),
        ] {
            fs::write(paper.page(), format!("a\n<!-- {block} -->\n<!-- end -->\n")).expect("room");
            let Err(error) = paper.filled() else {
                panic!("{block} was filled")
            };
            assert!(format!("{error:#}").contains(said), "{block}: {error:#}");
        }
        fs::write(paper.page(), "<!-- table mex-clients M15 -->\n").expect("room");
        assert!(paper.filled().is_err(), "it has no end");
        let text = "a\n\n<!-- table mex-clients M15 -->\n1\n<!-- end -->\n\nb\n";
        fs::write(paper.page(), text).expect("room");
        let filled = paper.filled().expect("filled");
        assert!(
            filled
                .text
                .starts_with("a\n\n<!-- table mex-clients M15 -->\n\n")
        );
        assert!(filled.text.ends_with("\n\n<!-- end -->\n\nb\n"));
        fs::write(paper.page(), &filled.text).expect("room");
        assert!(paper.filled().expect("again").text == filled.text);
    }
}
