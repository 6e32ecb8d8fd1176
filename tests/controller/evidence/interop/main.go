// Reads our checkpoints, keys and proofs with golang.org/x/mod/sumdb (Debian: golang-golang-x-mod-dev), and
// makes some of its own for us to read. JSON on standard input and output.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type proof struct {
	Index int64    `json:"index"` // the leaf, or the size of the earlier tree
	Hash  []byte   `json:"hash"`  // the leaf's hash, or the earlier root
	Path  [][]byte `json:"path"`
}

type log struct {
	Key         string   `json:"key"`
	Note        []byte   `json:"note"`
	Leaves      [][]byte `json:"leaves"`
	Inclusion   []proof  `json:"inclusion"`
	Consistency []proof  `json:"consistency"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hash(raw []byte) (h tlog.Hash) {
	if len(raw) != len(h) {
		must(fmt.Errorf("a hash has %d bytes", len(raw)))
	}
	copy(h[:], raw)
	return h
}

func hashes(raw [][]byte) (all []tlog.Hash) {
	for _, each := range raw {
		all = append(all, hash(each))
	}
	return all
}

// check reads a log of ours: the note under its key, then each proof under the note's size and root.
func check(in log) {
	verifier, err := note.NewVerifier(in.Key)
	must(err)
	opened, err := note.Open(in.Note, note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	if len(opened.Sigs) != 1 || len(lines) != 4 || lines[0] != verifier.Name() {
		must(fmt.Errorf("not a checkpoint of %s", verifier.Name()))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	rootBytes, err := base64.StdEncoding.DecodeString(lines[2])
	must(err)
	root := hash(rootBytes)
	for index, data := range in.Leaves {
		if tlog.RecordHash(data) != hash(in.Inclusion[index].Hash) {
			must(fmt.Errorf("the hash of leaf %d differs", index))
		}
	}
	for _, each := range in.Inclusion {
		must(tlog.CheckRecord(hashes(each.Path), size, root, each.Index, hash(each.Hash)))
	}
	for _, each := range in.Consistency {
		must(tlog.CheckTree(hashes(each.Path), size, root, each.Index, hash(each.Hash)))
	}
	fmt.Printf("%d %d\n", len(in.Inclusion), len(in.Consistency))
}

type store []tlog.Hash

func (s store) ReadHashes(indexes []int64) (found []tlog.Hash, err error) {
	for _, each := range indexes {
		found = append(found, s[each])
	}
	return found, nil
}

func raw(all []tlog.Hash) [][]byte {
	out := [][]byte{}
	for _, each := range all {
		out = append(out, append([]byte{}, each[:]...))
	}
	return out
}

// produce makes a log of its own over the leaves asked for.
func produce(in log) {
	secret, public, err := note.GenerateKey(rand.Reader, "go.example/log")
	must(err)
	signer, err := note.NewSigner(secret)
	must(err)
	var stored store
	var roots []tlog.Hash
	for index, data := range in.Leaves {
		added, err := tlog.StoredHashes(int64(index), data, stored)
		must(err)
		stored = append(stored, added...)
		root, err := tlog.TreeHash(int64(index)+1, stored)
		must(err)
		roots = append(roots, root)
	}
	size := int64(len(in.Leaves))
	root := roots[size-1]
	text := fmt.Sprintf("go.example/log\n%d\n%s\n", size, base64.StdEncoding.EncodeToString(root[:]))
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must(err)
	out := log{Key: public, Note: signed}
	for index, data := range in.Leaves {
		n := int64(index)
		path, err := tlog.ProveRecord(size, n, stored)
		must(err)
		leaf := tlog.RecordHash(data)
		out.Inclusion = append(out.Inclusion, proof{n, leaf[:], raw(path)})
		tree, err := tlog.ProveTree(size, n+1, stored)
		must(err)
		out.Consistency = append(out.Consistency, proof{n + 1, append([]byte{}, roots[n][:]...), raw(tree)})
	}
	must(json.NewEncoder(os.Stdout).Encode(out))
}

func main() {
	var in log
	buffer := new(bytes.Buffer)
	_, err := buffer.ReadFrom(os.Stdin)
	must(err)
	must(json.Unmarshal(buffer.Bytes(), &in))
	if os.Args[1] == "check" {
		check(in)
	} else {
		produce(in)
	}
}
