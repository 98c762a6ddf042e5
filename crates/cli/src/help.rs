//! The help of commands, as a terminal of any width shows it.

use clap::Command;

/// The command line, whose paragraphs flow: they are wrapped where the terminal ends, and not also where the source does.
pub fn flowing(command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    let text = command
        .get_after_help()
        .map(|help| joined(&help.to_string()));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, flowing)
    })
}

/// Joins the lines of a paragraph. What is indented stays as it is: lists, and what is typed; so does the line before it.
fn joined(text: &str) -> String {
    let mut flowing = String::new();
    let mut before = "";
    for line in text.lines() {
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        if !flowing.is_empty() {
            flowing.push(match is_prose(before) && is_prose(line) {
                true => ' ',
                false => '\n',
            });
        }
        flowing.push_str(line);
        before = line;
    }
    flowing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_flow_and_lists_stay() {
        let text = "One sentence that\nends here.\n\nExamples:\n  logberg status\n  logberg log list\nand more\nof it";
        let flows = "One sentence that ends here.\n\nExamples:\n  logberg status\n  logberg log list\nand more of it";
        assert_eq!(joined(text), flows);
    }

    #[test]
    fn commands_below_flow_too() {
        let below = Command::new("below").after_help("a\nb");
        let above = Command::new("above").after_help("c\nd").subcommand(below);
        let above = flowing(above);
        let help = |command: &Command| command.get_after_help().map(ToString::to_string);
        assert_eq!(help(&above).as_deref(), Some("c d"));
        let below = above.find_subcommand("below").expect("it is there");
        assert_eq!(help(below).as_deref(), Some("a b"));
    }
}
