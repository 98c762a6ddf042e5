//! docs/paper.md and docs/lab.md: prose by hand, and blocks of tables and figures that are made of kept runs.
//!
//! ```text
//!   <!-- table zcp-grid Z4 -->           docs/runs/zcp-grid.json.gz ─► its tables and checks ─► Markdown in the block
//!   <!-- end -->
//!   <!-- figure ramp-size R22 -->        docs/runs/ramp-size.json.gz ─► its plots ─► docs/figures/ramp-size-r22.svg
//!   <!-- end -->
//!   <!-- verdicts ramp -->               docs/runs/ramp-….json.gz ─► all their checks ─► a table
//!   <!-- end -->
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `kept` | runs that are kept, compressed or not |
//! | `blocks` | where blocks begin and end, and what they ask for |
//! | `parts` | the tables and plots of a run, by the words that ask for them |
//! | `verdicts` | the checks of several runs |
//! | `values` | what a bench printed, as a table |
//! | `markdown` | a table, and where a number comes from, as Markdown |

mod blocks;
pub mod kept;
mod markdown;
mod parts;
mod values;
mod verdicts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use terminal::exit::{Failure, Kind};

use blocks::{Block, Piece, Shows};
use kept::Kept;

/// A page that everybody clones stays small: runs and figures together.
pub const BYTES_MAX: u64 = 5 << 20;

/// The pages that have blocks.
const PAGES: [&str; 2] = ["paper.md", "lab.md"];

/// The pages as their runs have them.
pub struct Filled {
    /// By the names of their files.
    pub pages: BTreeMap<&'static str, String>,
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

    pub fn figures(&self) -> PathBuf {
        self.docs.join("figures")
    }

    pub fn runs(&self) -> PathBuf {
        self.docs.join("runs")
    }

    /// The pages that are there, by the names of their files.
    pub fn pages(&self) -> Result<BTreeMap<&'static str, String>> {
        let mut all = BTreeMap::new();
        for name in PAGES {
            let page = self.docs.join(name);
            let text = fs::read_to_string(&page);
            all.insert(
                name,
                text.with_context(|| format!("cannot read {}", page.display()))?,
            );
        }
        Ok(all)
    }

    /// The names of the runs that begin so, in order.
    fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for file in fs::read_dir(self.runs())? {
            let name = file?.file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".json.gz").unwrap_or_default();
            if name.split('-').next() == Some(prefix) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        match names.is_empty() {
            true => {
                let sentence = format!("no run in {} is named {prefix}-…", self.runs().display());
                Err(Failure::new(Kind::NotFound, sentence).into())
            }
            false => Ok(names),
        }
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
            pages: BTreeMap::new(),
            figures: BTreeMap::new(),
            blocks: 0,
        };
        for (page, text) in self.pages()? {
            let text = self.filled_page(&text, &mut runs, &mut filled)?;
            filled.pages.insert(page, text);
        }
        self.check_size(&filled)?;
        Ok(filled)
    }

    fn filled_page(
        &self,
        page: &str,
        runs: &mut BTreeMap<String, Kept>,
        filled: &mut Filled,
    ) -> Result<String> {
        let mut all = String::new();
        for piece in blocks::pieces(page)? {
            let block = match piece {
                Piece::Text(text) => {
                    all += text;
                    continue;
                }
                Piece::Block(block) => block,
            };
            let names = match block.shows {
                Shows::Verdicts => self.names(block.run)?,
                Shows::Table | Shows::Figure => vec![block.run.to_owned()],
            };
            for name in &names {
                if !runs.contains_key(name) {
                    let path = self.runs().join(format!("{name}.json.gz"));
                    runs.insert(name.clone(), Kept::read(&path)?);
                }
            }
            let found: Vec<(&str, &Kept)> = names
                .iter()
                .filter_map(|name| Some((name.as_str(), runs.get(name)?)))
                .collect();
            let content = filled.content(&block, &found)?;
            all += &format!("{}\n\n{content}\n\n{}\n", block.begin(), blocks::END);
            filled.blocks += 1;
        }
        Ok(all)
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
    fn content(&mut self, block: &Block, runs: &[(&str, &Kept)]) -> Result<String> {
        if block.shows == Shows::Verdicts {
            return Ok(verdicts::of(runs));
        }
        let mut all = Vec::new();
        for (name, kept) in runs {
            let shown = match block.shows == Shows::Figure {
                true => self.drawn(block, kept)?,
                false => markdown::tables(&parts::tables(kept, block)?),
            };
            all.push(format!("{shown}\n\n{}", markdown::origin(name, kept)));
        }
        Ok(all.join("\n\n"))
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
        let pages = paper.pages().expect("they are there");
        assert!(pages == filled.pages, "{fill}");
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
        let page = |name: &str, text: &str| {
            fs::write(place.path().join(name), text).expect("room");
        };
        page("lab.md", "of the lab\n");
        for (block, said) in [
            ("verdicts ramp", "no run in"),
            ("verdicts mex mex", "verdicts PREFIX"),
            ("table mex-clients M99", "it has"),
            ("figure mex-clients M15 7", "it has"),
            ("table absent M15", "absent.json.gz"),
            ("table mex-clients", "table RUN WHAT"),
        ] {
            page("paper.md", &format!("a\n<!-- {block} -->\n<!-- end -->\n"));
            let Err(error) = paper.filled() else {
                panic!("{block} was filled")
            };
            assert!(format!("{error:#}").contains(said), "{block}: {error:#}");
        }
        page("paper.md", "<!-- table mex-clients M15 -->\n");
        assert!(paper.filled().is_err(), "it has no end");
        let text = "a\n\n<!-- table mex-clients M15 -->\n1\n<!-- end -->\n\nb\n";
        page("paper.md", text);
        page("lab.md", "<!-- verdicts mex -->\n<!-- end -->\n");
        let filled = paper.filled().expect("filled");
        let text = &filled.pages["paper.md"];
        assert!(text.starts_with("a\n\n<!-- table mex-clients M15 -->\n\n"));
        assert!(text.ends_with("\n\n<!-- end -->\n\nb\n"));
        let verdicts = &filled.pages["lab.md"];
        assert!(verdicts.contains("| M15 |") && verdicts.contains("- From [mex-clients]"));
        for (name, text) in &filled.pages {
            page(name, text);
        }
        assert!(paper.filled().expect("again").pages == filled.pages);
    }
}
