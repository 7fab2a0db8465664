package demo

// The pauses, in tokens: at reading speed the tool takes three seconds and the
// long thought 35, so that two keepalives are seen.
const (
	toolPause    = 75
	thoughtPause = 875
)

// scripts are the answers that a word of the prompt asks for.
func scripts() []script {
	return []script{withTools(), withThought(), withFailure(), withDrop(), long()}
}

func plain() script {
	return script{name: "plain", steps: []step{{kind: say, text: `Because an answer usually lives exactly as long as the HTTP response that carries it. When the lid closes, the train enters a tunnel or somebody reloads the page, that response is gone, and with it everything the model had not said yet. It was paid for all the same.

Here the two are kept apart. The gateway asked me. It reads every piece I send, gives it a number and stores it, and only then shows it to you. Your connection is just a reader of that log, and the log does not mind how many readers there are, or none.

Try it while I talk:

1. Press "Kill connection". The page goes deaf and I go on talking. When it comes back, it asks for the frames after the last one it saw, and gets them: nothing missing, nothing twice.

2. Reload the page. It remembers its place in the log and carries on there.

3. Open the link for a second device. A reader that comes late gets the answer from the beginning, catches up, and then both of you hear me at the same moment.

4. Press "Retry". That sends the same request again under the same Idempotency-Key, as an impatient network library would. You get this answer and no second one: I am not asked again, and nobody pays twice.

5. Press "Stop". That is not the same as leaving. The gateway hangs up on me, and then tells you what it knows about my side and what it does not.

Now look at the picture. Time runs to the right, frame numbers go up, and every colour is another connection. The grey line is me. A cut is the place where the colour ends while the grey line goes on climbing, and coming back is the cliff where the next colour catches up with it.

If all the colours together make one line from the first frame to the last, with no hole in it and no step back, then the answer has outlived its connections. That is all there is to see here, which is rather the point.`}}}
}

func withTools() script {
	return script{name: "tool", words: []string{"tool", "tools", "weather"}, steps: []step{
		{kind: muse, text: "They ask about the weather in Lisbon. I do not know it by heart, so this needs the weather tool, and the tides would be good to have as well. Two calls, then one short answer."},
		{kind: say, text: "Let me look that up.\n\n"},
		{kind: call, name: "get_weather", text: `{"city": "Lisbon", "unit": "celsius", "days": 2}`},
		{kind: pause, wait: toolPause},
		{kind: call, name: "get_tides", text: `{"harbour": "Cascais", "date": "tomorrow"}`},
		{kind: pause, wait: toolPause},
		{kind: say, text: `Lisbon has 19 degrees and a light north-westerly wind tonight. Tomorrow starts with fog over the river, clears by eleven, and reaches 22 degrees. High water at Cascais is at 07:40 and again at 20:05.

Two tools were asked for on the way. Their calls came as pieces, like the text, and each piece has its own frame number: cut the connection in the middle of their arguments and they still arrive whole. The gateway saw them too: it says that an effect of this run is possible, and it will not call a retry harmless.

(This is a script: the weather is made up, and no tool ran.)`},
	}}
}

func withThought() script {
	return script{name: "think", words: []string{"think", "thinking", "ponder"}, steps: []step{
		{kind: muse, text: "This deserves a proper think. I will be silent for thirty-five seconds now. Not a byte leaves me in that time, and plenty of things between me and the reader would take the silence for a dead connection."},
		{kind: pause, wait: thoughtPause},
		{kind: muse, text: " There. That was the silence."},
		{kind: say, text: `I am back. For thirty-five seconds I sent nothing at all.

A load balancer would have hung up, and a browser tab on a phone would have been put to sleep. Your connection stayed, because after fifteen seconds of silence the gateway wrote a comment into it, a line that begins with a colon and that every client skips, and fifteen seconds later another. The counter of keepalives shows them when the page reads the stream with fetch; an EventSource swallows them before anybody can count.

You could have left as well. I would not have noticed, and you would have found this text when you came back.`},
	}}
}

func withFailure() script {
	return script{name: "fail", words: []string{"fail", "fails", "error"}, steps: []step{
		{kind: say, text: `All goes well at first. The first sentence arrives, then the second, and nobody suspects anything. Then, somewhere in the middle of the third one, the model behind me runs out of`},
		{kind: pause, wait: 25},
		{kind: fail, name: "scripted_failure", text: "The scripted agent failed on purpose, in mid-stream."},
	}}
}

func withDrop() script {
	return script{name: "drop", words: []string{"hang", "crash", "drop"}, steps: []step{
		{kind: say, text: `A stream that ends is not always a stream that is finished. I am going to stop in the middle of a word, without an end marker and without an apology, the way a crashed process does. Many clients would show you what they have and call it an answer. Watch what this one calls it when I disapp`},
		{kind: drop},
	}}
}
