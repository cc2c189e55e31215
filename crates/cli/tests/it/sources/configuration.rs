//! What an image says about running it, as Docker understands it.

use std::sync::LazyLock;

use crate::sources::{BASE, TAG, docker, sandboxed};

const STEPS: &str = r#"
RUN groupadd -g 77 crew && groupadd -g 78 deck && useradd -u 1234 -g crew -G deck -d /home/sailor -m sailor
ENV PATH=/opt/bin:/usr/bin:/bin COLOUR="light  blue" EMPTY="" EQUALS=a=b=c LANG=C
USER sailor
WORKDIR /work dir
WORKDIR a
ENTRYPOINT ["/usr/bin/printf", "<%s>\n", "entry point"]
CMD ["own command", "* $COLOUR", ""]
"#;

/// Who, where, and what is set. Each engine has one entry of its own: HOSTNAME, and USER.
const ABOUT: &str = "id -u; id -g; id -G; pwd; umask; env | grep -v -e ^HOSTNAME= -e ^USER= | sort";

fn both(tag: &str, docker_options: &[&str], options: &[&str], command: &[&str]) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let expected = text(docker::run(docker_options, tag, command));
    let found = text(sandboxed(BASE.place.path(), &format!("docker:{tag}"), options, command));
    assert_eq!(found, expected, "{tag} {docker_options:?} {command:?}");
    assert!(!expected.is_empty());
}

#[test]
fn an_images_own_words_mean_what_docker_says() {
    LazyLock::force(&BASE);
    let tag = "configured:own";
    docker::build(tag, &format!("FROM {TAG}\n{STEPS}"));
    both(tag, &[], &[], &[]);
    both(tag, &[], &[], &["mine", "and $COLOUR"]);
    let shell = "configured:shell";
    docker::build(shell, &format!("FROM {tag}\nENTRYPOINT []\nCMD echo $COLOUR; {ABOUT}\n"));
    both(shell, &[], &[], &[]);
    both(shell, &["--workdir", "/tmp", "--env", "COLOUR=red"], &["--workdir", "/tmp", "--env", "COLOUR=red"], &[]);
    for user in ["0", "42", "42:7", "999", "999:998", "nobody", "1234", "sailor", "sailor:5", "sailor:deck"] {
        both(shell, &["--user", user], &["--user", user], &["sh", "-c", "id -u; id -g; id -G; echo $HOME"]);
    }
    // The user of an image, too, may be a number that nobody has, or have a group by its name.
    for (number, user) in ["4321", "sailor:deck"].iter().enumerate() {
        let tag = format!("configured:user-{number}");
        docker::build(&tag, &format!("FROM {shell}\nUSER {user}\n"));
        both(&tag, &[], &[], &[]);
    }
}
