package frame

// Parse fills f from one stored frame, as it was in [Frame].Clean. f may be
// used again and again; then nothing is allocated. It must not be a frame that
// a sink is being given.
func Parse(kind Kind, clean []byte, f *Frame) {
	switch kind {
	case SSE:
		f.parseBlock(clean)
	case Lines:
		f.parseLine(clean)
	case Opaque:
		f.parsePiece(clean)
	}
}
