//! `anteroom certs`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Ended, complain, say};
use crate::clock::Clock;
use crate::model::ids::NodeId;
use crate::model::numbered::{EdgeName, FIRST_GIVEN};
use crate::peer::{IssueError, Issued, issue_ca, issue_node, issue_numbering, issue_unnumbered, node_name};

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NODE_CERTIFICATE: &str = "node.crt";
const NODE_KEY: &str = "node.key";
const NUMBERING_CERTIFICATE: &str = "numbering.crt";
const NUMBERING_KEY: &str = "numbering.key";

/// Who may read a file that is made: a certificate is no secret, a key is its owner's.
const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

#[derive(Debug, Subcommand)]
pub(super) enum Certs {
    /// Makes a CA for one fleet, valid for ten years: ca.crt, and ca.key for its owner's eyes only.
    Ca {
        /// The directory to put them into; made (0700) if missing, and nothing in it is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Makes the certificate of one node, signed by the fleet's CA: node.crt, node.key, and a copy of ca.crt.
    Node {
        /// The directory with the ca.crt and ca.key that `anteroom certs ca` made.
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// The node's id, as `node.id` of its configuration: 1 to 9999.
        #[arg(long, value_name = "N", value_parser = configured)]
        id: NodeId,
        /// The directory to put them into; made (0700) if missing, and nothing in it is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// For how many days the certificate is valid.
        #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = clap::value_parser!(u16).range(1..=3650))]
        days: u16,
    },
    /// Makes the certificate of edges that the leader numbers (`node.id: auto`), signed by the fleet's CA: node.crt, node.key,
    /// and a copy of ca.crt. One may serve all edges of a group.
    Edge {
        /// The directory with the ca.crt and ca.key that `anteroom certs ca` made.
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// What such edges are called by `anteroom cluster status`: a-z, 0-9 and '-'.
        #[arg(long, value_name = "NAME")]
        name: EdgeName,
        /// The directory to put them into; made (0700) if missing, and nothing in it is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// For how many days the certificate is valid.
        #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = clap::value_parser!(u16).range(1..=3650))]
        days: u16,
    },
    /// Makes what controllers certify the numbers of such edges with, signed by the fleet's CA: numbering.crt, numbering.key.
    Numbering {
        /// The directory with the ca.crt and ca.key that `anteroom certs ca` made.
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// The directory to put them into; made (0700) if missing, and nothing in it is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// For how many days the certificate is valid.
        #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = clap::value_parser!(u16).range(1..=3650))]
        days: u16,
    },
}

/// The number of a node that has one by its configuration.
fn configured(text: &str) -> Result<NodeId, String> {
    let number = text.parse().ok().map(NodeId).filter(|node| !node.is_given());
    number.ok_or_else(|| {
        format!("a node's id is 1 to {}; those above are given by the leader", FIRST_GIVEN - 1)
    })
}

/// Why files were not made.
#[derive(Debug, thiserror::Error)]
enum CertsError {
    #[error("{0} is there already and is never overwritten; remove it or name another directory with --out")]
    Exists(PathBuf),
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error("{0} cannot be written: {1}")]
    Unwritable(PathBuf, io::Error),
    #[error(transparent)]
    Issue(#[from] IssueError),
}

pub(super) fn certs(what: &Certs) -> Ended {
    let made = match what {
        Certs::Ca { out } => make_ca(out),
        Certs::Node { ca, id, out, days } => make_node(ca, *id, out, *days),
        Certs::Edge { ca, name, out, days } => make_edge(ca, name, out, *days),
        Certs::Numbering { ca, out, days } => make_numbering(ca, out, *days),
    };
    match made {
        Ok(told) => {
            say(&told);
            Ended::Well
        }
        Err(error) => {
            complain(&format!("anteroom: {error}"));
            Ended::Badly
        }
    }
}

/// Makes a CA; what was made, and what to do with it, in lines to print.
fn make_ca(out: &Path) -> Result<String, CertsError> {
    let made = issue_ca(Clock::start().wall())?;
    let (certificate, key) = (out.join(CA_CERTIFICATE), out.join(CA_KEY));
    write_new(out, &[(&key, &made.key, PRIVATE), (&certificate, &made.certificate, PUBLIC)])?;
    Ok(format!(
        "{}: the certificate of the fleet's CA, valid for ten years; every node gets a copy\n\
         {}: its key. Whoever has it can make nodes of this fleet: keep it off the nodes, and keep a backup\n\
         Next, for every node: anteroom certs node --ca {} --id N --out DIR",
        certificate.display(),
        key.display(),
        out.display(),
    ))
}

/// Makes the certificate of one node; what was made, and what to do with it, in lines to print.
fn make_node(ca: &Path, node: NodeId, out: &Path, days: u16) -> Result<String, CertsError> {
    let ca = read_ca(ca)?;
    let made = issue_node(&ca, node, Clock::start().wall(), days)?;
    let [certificate, key, copy] = write_beside_ca(out, &made, &ca)?;
    Ok(format!(
        "{}: the certificate of node {node}, {}, valid for {days} days\n\
         {}: its key\n\
         {}: the certificate of the fleet's CA, a copy\n\
         Put the three files beside the configuration of node {node}, and into it, with `node.id` {node}:\n\
         \x20 cluster:\n\
         \x20   tls: {{ ca: {CA_CERTIFICATE}, certificate: {NODE_CERTIFICATE}, key: {NODE_KEY} }}",
        certificate.display(),
        node_name(node),
        key.display(),
        copy.display(),
    ))
}

/// Makes the certificate of edges that the leader numbers; what was made, and what to do with it, in lines to print.
fn make_edge(ca: &Path, name: &EdgeName, out: &Path, days: u16) -> Result<String, CertsError> {
    let ca = read_ca(ca)?;
    let made = issue_unnumbered(&ca, name, Clock::start().wall(), days)?;
    let [certificate, key, copy] = write_beside_ca(out, &made, &ca)?;
    Ok(format!(
        "{}: the certificate of edges called {name} that the leader numbers, valid for {days} days\n\
         {}: its key. Whoever has it can be such an edge\n\
         {}: the certificate of the fleet's CA, a copy\n\
         Put the three files beside the configuration of such edges, and into it, with `node.id` auto:\n\
         \x20 cluster:\n\
         \x20   tls: {{ ca: {CA_CERTIFICATE}, certificate: {NODE_CERTIFICATE}, key: {NODE_KEY} }}\n\
         Every controller needs `cluster.numbering`: see anteroom certs numbering --help",
        certificate.display(),
        key.display(),
        copy.display(),
    ))
}

/// Makes what numbers are certified with; what was made, and what to do with it, in lines to print.
fn make_numbering(ca: &Path, out: &Path, days: u16) -> Result<String, CertsError> {
    let made = issue_numbering(&read_ca(ca)?, Clock::start().wall(), days)?;
    let [certificate, key] = [NUMBERING_CERTIFICATE, NUMBERING_KEY].map(|name| out.join(name));
    write_new(out, &[(&key, &made.key, PRIVATE), (&certificate, &made.certificate, PUBLIC)])?;
    Ok(format!(
        "{}: what controllers certify the numbers of edges with, valid for {days} days\n\
         {}: its key. Whoever has it can make numbered edges of this fleet, and no other node\n\
         Put both beside the configuration of every controller, of no other node, and into it:\n\
         \x20 cluster:\n\
         \x20   numbering: {{ certificate: {NUMBERING_CERTIFICATE}, key: {NUMBERING_KEY} }}",
        certificate.display(),
        key.display(),
    ))
}

fn read_ca(directory: &Path) -> Result<Issued, CertsError> {
    Ok(Issued { certificate: read(directory.join(CA_CERTIFICATE))?, key: read(directory.join(CA_KEY))? })
}

/// Writes a certificate, its key and a copy of the CA's certificate; where they are.
fn write_beside_ca(out: &Path, made: &Issued, ca: &Issued) -> Result<[PathBuf; 3], CertsError> {
    let [certificate, key, copy] = [NODE_CERTIFICATE, NODE_KEY, CA_CERTIFICATE].map(|name| out.join(name));
    let mut files = vec![(&key, &made.key, PRIVATE), (&certificate, &made.certificate, PUBLIC)];
    // A renewed certificate comes beside the CA that is there, if it is the same.
    if std::fs::read_to_string(&copy).ok().as_ref() != Some(&ca.certificate) {
        files.push((&copy, &ca.certificate, PUBLIC));
    }
    write_new(out, &files)?;
    Ok([certificate, key, copy])
}

fn read(path: PathBuf) -> Result<String, CertsError> {
    std::fs::read_to_string(&path).map_err(|error| CertsError::Unreadable(path, error))
}

/// Writes files that are not there yet; all of them or none.
fn write_new(directory: &Path, files: &[(&PathBuf, &String, u32)]) -> Result<(), CertsError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(|error| CertsError::Unwritable(directory.to_owned(), error))?;
    let mut begun = Vec::new();
    for (path, text, mode) in files {
        if let Err(error) = write_one(path, text, *mode, &mut begun) {
            for path in begun {
                // What cannot be removed is told by the next try, which refuses to overwrite it.
                let _ = std::fs::remove_file(path);
            }
            return Err(match error.kind() {
                ErrorKind::AlreadyExists => CertsError::Exists((*path).clone()),
                _ => CertsError::Unwritable((*path).clone(), error),
            });
        }
    }
    Ok(())
}

/// Writes one file and notes it in `begun` as soon as there is something to remove.
fn write_one<'a>(path: &'a Path, text: &str, mode: u32, begun: &mut Vec<&'a Path>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    begun.push(path);
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::peer::{Identity, IdentityError, IdentityFiles, Numbering, NumberingError, Unnumbered};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn node(id: u16) -> NodeId {
        NodeId(NonZeroU16::new(id).unwrap())
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn keys_are_for_their_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let (ca, one) = (place.path().join("fleet/ca"), place.path().join("one"));
        make_ca(&ca).unwrap();
        make_node(&ca, node(1), &one, 730).unwrap();
        assert_eq!((mode(&ca), mode(&one)), (0o700, 0o700));
        assert_eq!((mode(&ca.join(CA_KEY)), mode(&one.join(NODE_KEY))), (0o600, 0o600));
        assert_eq!(names(&one), ["ca.crt", "node.crt", "node.key"]);
        let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(text(one.join(CA_CERTIFICATE)), text(ca.join(CA_CERTIFICATE)));
    }

    #[test]
    fn the_files_of_a_node_are_its_identity_and_no_other_nodes() {
        let place = tempfile::tempdir().unwrap();
        make_ca(place.path()).unwrap();
        make_node(place.path(), node(1), place.path(), 730).unwrap();
        let [ca, certificate, key] =
            [CA_CERTIFICATE, NODE_CERTIFICATE, NODE_KEY].map(|name| place.path().join(name));
        Identity::load(&ca, &certificate, &key, node(1)).unwrap();
        let other = Identity::load(&ca, &certificate, &key, node(2));
        assert!(matches!(other, Err(IdentityError::OtherNode { .. })), "{other:?}");
    }

    #[test]
    fn the_files_of_numbered_edges_are_of_use_for_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (ca, group, signer) =
            (place.path().join("ca"), place.path().join("web"), place.path().join("numbering"));
        make_ca(&ca).unwrap();
        make_edge(&ca, &"web".parse().unwrap(), &group, 730).unwrap();
        make_numbering(&ca, &signer, 730).unwrap();
        assert_eq!(names(&signer), ["numbering.crt", "numbering.key"]);
        assert_eq!((mode(&signer.join(NUMBERING_KEY)), mode(&group.join(NODE_KEY))), (0o600, 0o600));
        let [authority, certificate, key] =
            [CA_CERTIFICATE, NODE_CERTIFICATE, NODE_KEY].map(|name| group.join(name));
        let files = IdentityFiles { ca: &authority, certificate: &certificate, key: &key };
        assert_eq!(Unnumbered::load(files).unwrap().name().as_str(), "web");
        let numbered = Identity::load(&authority, &certificate, &key, node(1)).unwrap_err();
        assert!(matches!(numbered, IdentityError::Unnumbered { .. }), "{numbered}");
        let signs = Numbering::load(
            &ca.join(CA_CERTIFICATE),
            &signer.join(NUMBERING_CERTIFICATE),
            &signer.join(NUMBERING_KEY),
        );
        signs.unwrap();
        let no_signer = Numbering::load(&authority, &certificate, &key).unwrap_err();
        assert!(matches!(no_signer, NumberingError::Unusable(_)), "{no_signer}");
        assert!(configured("9999").is_ok() && configured("10000").is_err() && configured("0").is_err());
    }

    #[test]
    fn nothing_is_overwritten_and_a_refusal_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let ca = place.path().join("ca");
        make_ca(&ca).unwrap();
        for (there, of_node) in [
            (CA_CERTIFICATE, false),
            (CA_KEY, false),
            (NODE_CERTIFICATE, true),
            (NODE_KEY, true),
            (CA_CERTIFICATE, true),
        ] {
            let out = tempfile::tempdir().unwrap();
            std::fs::write(out.path().join(there), "somebody's").unwrap();
            let refused = match of_node {
                true => make_node(&ca, node(1), out.path(), 730),
                false => make_ca(out.path()),
            };
            assert!(
                matches!(&refused, Err(CertsError::Exists(path)) if path.ends_with(there)),
                "{refused:?}"
            );
            assert_eq!(names(out.path()), [there]);
            assert_eq!(std::fs::read_to_string(out.path().join(there)).unwrap(), "somebody's");
        }
    }

    #[test]
    fn a_node_beside_its_ca_leaves_the_ca_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        make_ca(place.path()).unwrap();
        make_node(place.path(), node(1), place.path(), 1).unwrap();
        assert_eq!(names(place.path()), ["ca.crt", "ca.key", "node.crt", "node.key"]);
    }

    #[test]
    fn a_missing_ca_is_told_by_its_path() {
        let place = tempfile::tempdir().unwrap();
        let refused = make_node(&place.path().join("nowhere"), node(1), place.path(), 730).unwrap_err();
        assert!(refused.to_string().contains("nowhere/ca.crt cannot be read"), "{refused}");
        assert_eq!(names(place.path()), Vec::<String>::new());
    }
}
