//! A report for people: one HTML file that needs nothing beside it.
//!
//! ```text
//!   --report FILE ─► To::open ─── measuring ───► Page ─► Opened::write ─► FILE
//!                    (fails early)                        (all of it, or nothing)
//! ```

pub mod plot;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use testbed::environment::Machine;

/// Where a report goes.
#[derive(Clone, Debug, Args)]
pub struct To {
    /// Also write a report with plots, as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// A report that can be written. Leaves nothing behind if it is not.
pub struct Opened {
    file: File,
    part: PathBuf,
    path: PathBuf,
}

#[derive(Default)]
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "\
body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 14px }
th, td { border-bottom: 1px solid #ddd; padding: 0.2em 0.8em; text-align: right }
th:first-child, td:first-child { text-align: left }
.wide { overflow-x: auto }
svg { max-width: 100%; height: auto }
code, pre { background: #f4f4f4; padding: 0.1em 0.3em }
pre { padding: 0.6em; white-space: pre-wrap }";

impl To {
    /// Before anything is measured: an hour's figures are not to end in a wrong directory.
    pub fn open(&self) -> Result<Option<Opened>> {
        self.report.as_deref().map(Opened::at).transpose()
    }
}

impl Opened {
    pub fn at(path: &Path) -> Result<Opened> {
        let mut part = path.to_path_buf().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part)
            .with_context(|| format!("the report cannot be written to {}", path.display()))?;
        Ok(Opened {
            file,
            part,
            path: path.to_path_buf(),
        })
    }

    pub fn write(mut self, page: Page) -> Result<()> {
        let said = || format!("the report cannot be written to {}", self.path.display());
        self.file
            .write_all(page.html().as_bytes())
            .with_context(said)?;
        std::fs::rename(&self.part, &self.path).with_context(said)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Gone already if it was written.
        let _ = std::fs::remove_file(&self.part);
    }
}

impl Page {
    /// Says by which command, where and when it was measured.
    pub fn new(title: &str, machine: &Machine) -> Page {
        Page::of(title, &typed(), &machine.sentence())
    }

    /// As [`Page::new`], of what was measured before, perhaps elsewhere.
    pub fn of(title: &str, command: &str, machine: &str) -> Page {
        let mut page = Page {
            title: title.to_owned(),
            ..Page::default()
        };
        page.add(format_args!(
            "<h1>{}</h1>\n<pre>{}</pre>\n<p>{}; logberg {}</p>\n",
            escaped(title),
            escaped(command),
            escaped(machine),
            env!("CARGO_PKG_VERSION"),
        ));
        page
    }

    fn add(&mut self, html: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = self.body.write_fmt(html);
    }

    pub fn heading(&mut self, text: &str) {
        self.add(format_args!("<h2>{}</h2>\n", escaped(text)));
    }

    pub fn text(&mut self, text: &str) {
        self.add(format_args!("<p>{}</p>\n", escaped(text)));
    }

    pub fn lines(&mut self, plot: &plot::Lines) -> Result<()> {
        let svg = plot.svg()?;
        self.add(format_args!("<figure>{svg}</figure>\n"));
        Ok(())
    }

    /// A plot that was drawn already.
    pub fn svg(&mut self, svg: &str) {
        self.add(format_args!("<figure>{svg}</figure>\n"));
    }

    pub fn bars(&mut self, plot: &plot::Bars) -> Result<()> {
        let svg = plot.svg()?;
        self.add(format_args!("<figure>{svg}</figure>\n"));
        Ok(())
    }

    /// The first column is text, the others are numbers.
    pub fn table(&mut self, headings: &[String], rows: &[Vec<String>]) {
        let row = |cells: &[String], tag: &str| {
            let cells = cells
                .iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
        self.add(format_args!(
            "<div class=\"wide\"><table>\n{}{body}</table></div>\n",
            row(headings, "th")
        ));
    }

    fn html(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n{}</body></html>\n",
            self.body
        )
    }
}

/// The command as it was typed, without the program's directory.
pub fn typed() -> String {
    let mut command: Vec<String> = std::env::args().collect();
    if let Some(program) = command.first_mut() {
        let name = Path::new(program).file_name().unwrap_or_default();
        *program = name.to_string_lossy().into_owned();
    }
    command.join(" ")
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: PathBuf) -> To {
        To { report: Some(path) }
    }

    #[test]
    fn a_report_that_is_not_written_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        drop(to(path.clone()).open().unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let opened = to(path.clone()).open().unwrap().unwrap();
        let mut page = Page::default();
        page.table(&["a".to_owned()], &[vec!["1 < 2 & 3".to_owned()]]);
        opened.write(page).unwrap();
        let html = std::fs::read_to_string(&path).unwrap();
        assert!(html.contains("<td>1 &lt; 2 &amp; 3</td>"), "{html}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_wrong_directory_is_found_before_anything_is_measured() {
        let Err(error) = to(PathBuf::from("/proc/no/report.html")).open() else {
            panic!("nobody can write there")
        };
        assert!(
            error.to_string().contains("/proc/no/report.html"),
            "{error}"
        );
    }
}
