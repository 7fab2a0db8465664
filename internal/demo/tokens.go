package demo

import "unicode"

// longestToken is how many characters of a word make one token, about as in a
// real vocabulary.
const longestToken = 7

// tokens cuts text the way a model would speak it: words with the space before
// them, punctuation and line ends on their own. Joined, they are the text.
func tokens(text string) []string {
	var out []string
	from, length := 0, 0
	last := ' '
	for i, r := range text {
		if i > 0 && (startsToken(last, r) || length == longestToken) {
			out = append(out, text[from:i])
			from, length = i, 0
		}
		last = r
		length++
	}
	if from < len(text) {
		out = append(out, text[from:])
	}
	return out
}

// startsToken reports whether a token may end between two neighbours.
func startsToken(last, next rune) bool {
	switch {
	case last == ' ':
		return false
	case next == ' ' || next == '\n':
		return last != '\n' || next == ' '
	}
	return isWord(last) != isWord(next)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' || r == '’' }
