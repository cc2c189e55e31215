//! Layers as a real builder writes them: what they remove, replace and put back.

use std::sync::LazyLock;

use crate::sources::listing::{Engine, SCRIPT, assert_same};
use crate::sources::{BASE, TAG, docker, listed, listing};

const STEPS: &str = r"
RUN mkdir -p /w/dir/deep /w/opaque/sub /w/tree/a/b/c /w/kept /w/linked && \
    for n in 1 2 3; do for d in dir/deep opaque/sub tree/a/b/c kept; do echo $n >/w/$d/$n; done; done && \
    echo file >/w/file-then-directory && mkdir /w/directory-then-file && echo x >/w/directory-then-file/x && \
    echo one >/w/linked/one && ln /w/linked/one /w/linked/two && ln -s one /w/linked/soft && ln -s /w/tree /w/to-tree && \
    chmod 1777 /w/kept && chown 42:42 /w/dir && mkfifo /w/fifo && touch -d 2001-02-03T04:05:06.7Z /w/kept/1
# Removed and made again in one layer: an opaque directory.
RUN rm -r /w/opaque && mkdir -m 2750 /w/opaque && echo new >/w/opaque/new && chown -R 42:65534 /w/opaque
# A file becomes a directory, a directory a file; then back.
RUN rm /w/file-then-directory && mkdir /w/file-then-directory && echo y >/w/file-then-directory/y && \
    rm -r /w/directory-then-file && echo file >/w/directory-then-file
RUN rm -r /w/file-then-directory && echo back >/w/file-then-directory && \
    rm /w/directory-then-file && mkdir /w/directory-then-file && echo z >/w/directory-then-file/z
# Links to what is in a lower layer, and links that lead elsewhere.
RUN ln /w/linked/one /w/linked/three && rm /w/linked/two && ln -sfn two-is-gone /w/linked/soft && \
    ln /odd/of-42 /w/linked/of-42
RUN rm -r /w/tree && ln -sfn /w/kept /w/to-tree && rm /w/fifo && echo no-fifo >/w/fifo
# A tree is gone, attributes change, a file is changed deep below directories that do not.
RUN rm /w/kept/2 && chmod 4711 /w/kept/3 && chown 42:42 /w/kept/3 && echo more >>/w/dir/deep/2 && \
    rm -r /usr/share/doc && rm /odd/linked
RUN mv /w/dir /w/moved && mkdir /w/dir && echo in >/w/dir/in && echo again >/w/kept/2 && mkdir -p /w/tree/a
RUN chmod 700 /odd/sticky && chown 42:42 /odd/capable && rm -r /odd/closed && mkdir /odd/closed && mkdir /usr/share/doc
";

#[test]
fn layers_are_what_docker_shows() {
    let tag = "layers:own";
    LazyLock::force(&BASE);
    docker::build(tag, &format!("FROM {TAG}\n{STEPS}"));
    let compared = [Engine::Ringfence, Engine::Docker];
    let expected = listing::read(&docker::run(&[], tag, &["sh", "-c", SCRIPT]), &compared);
    // A daemon that copies trees loses the attributes of users on the way, in what it shows and not in what it saves.
    let lost = docker::copies_trees();
    let is_compared = |line: &String| !(lost && line.starts_with("# file: ") && line.contains("\\nuser."));
    for (name, there) in
        [("./w/opaque/new ", true), ("./w/opaque/sub", false), ("./w/tree/a ", true), ("./w/tree/a/b", false)]
    {
        assert_eq!(expected.iter().any(|line| line.starts_with(name)), there, "{name}");
    }
    let saved = BASE.place.path().join("layers.tar");
    docker::save(tag, &saved);
    for (store, source) in [("layers-a", format!("docker:{tag}")), ("layers-b", format!("archive:{}", saved.display()))]
    {
        let mut found = listed(&BASE.place.path().join(store), &source, &compared);
        found.retain(is_compared);
        assert_same(&source, &found, &expected);
    }
}
