package dialect

import (
	"encoding/json"
	"maps"
)

// Failure is what a client has to learn about a run that did not complete.
type Failure struct {
	// Code is failed, cancelled, uncertain or stream_expired.
	Code string
	// Message is safe to show.
	Message string
	// Members are added to the error object where the dialect has room.
	Members map[string]any
	// Last is the data of the last frame of the stream, if there is one, for
	// dialects that are [Dialect].Numbered. It may be missing.
	Last []byte
	// Request is the id of the message that the stream answers, as raw JSON; nil
	// where it is not known.
	Request []byte
}

// codeUncertain is the code of a run of which nobody knows how it ended.
const codeUncertain = "uncertain"

// codeCancelled is the code of a run that was stopped: some dialects have a
// frame of its own for that.
const codeCancelled = "cancelled"

// object is one line of JSON: the members of the failure, and what the dialect
// wants to stand there, which wins.
func (f Failure) object(own map[string]any) []byte {
	all := maps.Clone(f.Members)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, own)
	line, err := json.Marshal(all)
	if err != nil { // a member that is no JSON; the client still has to learn of the end
		return oneLine(own)
	}
	return line
}

// oneLine encodes what holds only strings, numbers and maps of them.
func oneLine(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return line
}

// dataFrame is an SSE block without a name.
func dataFrame(data []byte) []byte {
	return append(append([]byte("data: "), data...), "\n\n"...)
}

// eventFrame is an SSE block with a name.
func eventFrame(event string, data []byte) []byte {
	return append([]byte("event: "+event+"\n"), dataFrame(data)...)
}

// doneFrame is the end marker of several dialects.
func doneFrame() []byte { return dataFrame([]byte("[DONE]")) }
