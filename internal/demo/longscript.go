package demo

import (
	"fmt"
	"strings"
)

// entries is how many entries the long answer has: about five minutes at
// reading speed.
const entries = 180

// long is an answer of several minutes: the log of a lighthouse. Its entries
// are numbered, so that anyone can see that none is missing.
func long() script {
	var b strings.Builder
	fmt.Fprintf(&b, "The log of the lighthouse at Cabo Demora, %d entries, read aloud at walking pace. There is time enough to close the laptop.\n\n", entries)
	for i := range entries {
		fmt.Fprintf(&b, "%d. %s\n\n", i+1, entry(i))
	}
	b.WriteString("Here the log ends. If you read every number up to this one, it was whole.")
	return script{
		name:  "long",
		words: []string{"long", "lighthouse", "story"},
		steps: []step{{kind: say, text: b.String()}},
	}
}

// entry is the i-th entry. The lists have lengths without a common divisor, so
// that the same entry never comes twice.
func entry(i int) string {
	clock := fmt.Sprintf("%02d:%02d", (18+i/4)%24, i%4*15)
	return fmt.Sprintf("%s. %s, %s. %s %s",
		clock, winds[i%len(winds)], seas[i%len(seas)], sights[i%len(sights)], remarks[i%len(remarks)])
}

var (
	winds = []string{
		"Wind from the north-west", "Hardly any wind", "A warm wind off the land",
		"Wind backing to the south", "Gusts from the west", "Dead calm", "A steady trade wind",
	}
	seas = []string{
		"the sea like slate", "a long low swell", "short steep waves on the bar",
		"fog down to the rocks", "stars to the horizon", "rain in grey curtains",
		"moonlight on the water", "spray over the lower gallery",
	}
	sights = []string{
		"A trawler passed outward bound with one lamp out.",
		"Two gulls have moved in under the east window.",
		"The supply boat signalled that the mail will be late.",
		"A sail stood off the point until the tide turned.",
		"Counted eleven fishing boats coming home.",
		"A tanker went by so slowly that it seemed painted.",
		"No ship within sight, which is also worth writing down.",
		"A whale blew twice near the outer buoy.",
		"The pilot cutter waved and got an answer.",
	}
	remarks = []string{
		"Trimmed the wick and wound the clockwork.",
		"Polished the lens until it showed my own tired face.",
		"The kettle boiled over; otherwise nothing to report.",
		"Greased the bearing of the lamp and it stopped complaining.",
		"Wrote three lines of a letter and crossed out two.",
		"The barometer fell a little, then thought better of it.",
		"Checked the spare lamp: it works, as it did an hour ago.",
		"Read a page of the almanac and disagreed with it.",
		"The light turned all night, whoever was looking.",
		"Someone far out answered the flash with a flash.",
		"Mended the blue flag and hung it up to dry.",
	}
)
