package demo

import (
	"slices"
	"strings"
)

// script is what the agent does for one prompt, step by step.
type script struct {
	name string
	// words choose this script when the prompt has one of them.
	words []string
	steps []step
}

// kind is what a step does.
type kind uint8

const (
	say   kind = iota + 1 // answer with text, token by token
	muse                  // reason aloud, token by token
	call                  // ask for a tool, its arguments token by token
	pause                 // be silent
	fail                  // say that something went wrong, and end
	drop                  // break the connection
)

// step is one thing that the agent does.
type step struct {
	kind kind
	text string // of say and muse; the arguments of call; the message of fail
	name string // the tool of call; the code of fail
	wait int    // of pause, in tokens
}

// pick returns the script for a prompt: the first one that has a word in
// common with it, else the plain answer.
func pick(prompt string) script {
	words := strings.FieldsFunc(strings.ToLower(prompt), func(r rune) bool {
		return r < 'a' || r > 'z'
	})
	for _, s := range scripts() {
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(s.words, w) }) {
			return s
		}
	}
	return plain()
}

// beat is one piece of an answer.
type beat struct {
	step       // with the text of this piece alone
	after int  // how long after the piece before it, in tokens
	first bool // of a call: the piece that carries its id and name
}

// beats cuts steps into the pieces that go over the wire, one per token.
func beats(steps []step) []beat {
	var out []beat
	after := 1
	for _, s := range steps {
		if s.kind == pause {
			after += s.wait
			continue
		}
		for i, piece := range pieces(s) {
			b := beat{step: s, after: after, first: i == 0}
			b.text = piece
			out, after = append(out, b), 1
		}
	}
	return out
}

// pieces are the texts of the beats of one step. A call has one more than its
// arguments have tokens: the one that names the tool.
func pieces(s step) []string {
	switch s.kind {
	case say, muse:
		return tokens(s.text)
	case call:
		return append([]string{""}, tokens(s.text)...)
	default:
		return []string{s.text}
	}
}
