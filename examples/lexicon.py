"""The words of the bundled treebank, by meaning, with their forms and the prepositions that they take.

Frequent words come first.
"""

NOUNS = {
    "person": """teacher baker farmer pilot doctor neighbour painter sailor student singer gardener writer tailor
        violinist librarian driver dancer engineer carpenter cook hunter builder reporter chemist actor guide plumber
        jeweller merchant printer potter editor artist weaver inspector barber biologist captain drummer florist
        mechanic novelist shepherd translator cyclist astronomer collector juggler skater inventor""",
    "animal": """dog cat horse rabbit parrot goat donkey beaver turtle squirrel camel lizard otter hedgehog penguin
        badger pigeon falcon lobster hamster""",
    "object": """lamp table chair clock box kettle piano bicycle basket window mirror blanket bottle carpet wagon
        statue drum candle suitcase lantern pillow bucket teapot cupboard violin kite trumpet vase wheelbarrow curtain
        trolley bench cabinet helmet saucer locket tractor canoe bracelet puppet fountain radiator sledge thimble
        barometer wardrobe napkin accordion chandelier hammock""",
    "tool": """hammer brush ladder rope chisel telescope spade sponge needle shovel torch magnet crowbar trowel
        screwdriver pencil broom ruler wrench tweezer sander stapler scraper roller""",
    "trait": """beard hat scarf moustache umbrella smile uniform accent ribbon necklace cloak limp apron collar freckle
        badge backpack ponytail""",
    "part": """handle lid wheel drawer button hinge spout label cushion pedal mirror strap pocket zipper antenna knob
        sticker rim latch fringe""",
    "place": """garden village kitchen harbour market forest station school valley museum river castle island library
        tower bakery street mountain theatre orchard bridge cellar factory meadow workshop airport canyon stable attic
        lighthouse courtyard hospital vineyard tavern monastery pier quarry chapel greenhouse laboratory""",
    "text": """book letter story report poem song article map diary recipe essay message novel speech pamphlet
        document manual postcard brochure legend ballad memoir chronicle leaflet""",
    "event": """meeting concert storm wedding festival election journey lecture parade exhibition picnic eclipse
        rehearsal tournament ceremony harvest auction regatta banquet symposium""",
    "topic": """plan idea secret rumour theory custom problem dream mystery adventure tradition election treasure
        invention superstition discovery migration alphabet weather geometry astronomy friendship volcano comet""",
    "time": """morning evening week month summer winter afternoon year weekend night""",
}

VERBS = {
    "move": """walk travel climb hurry march wander jump crawl stroll gallop sail rush hike tiptoe stumble glide
        paddle scurry limp sprint""",
    "appear": """arrive appear vanish remain emerge disappear wait collapse survive linger return perish surface
        materialise""",
    "make": """open repair paint clean polish decorate build finish fasten carve wash assemble wrap restore scrub
        varnish unlock dust adjust fix tighten sharpen sketch upholster insulate""",
    "perceive": """watch see notice observe admire remember photograph recognise discover inspect follow like spot
        identify ignore praise detect glimpse adore overlook""",
    "give": """offer give hand deliver present lend show award forward donate""",
    "place": """place load stack plant store toss hide arrange drop spread deposit""",
    "talk": """talk whisper argue complain joke lecture quarrel chat grumble mutter""",
    "claim": """think say believe know claim hope suspect report admit assume imagine announce insist predict declare
        conclude confirm""",
    "want": """want try plan promise decide start need refuse agree attempt learn prefer hesitate struggle volunteer
        threaten""",
    "ask": """ask persuade invite allow encourage order teach advise urge request compel instruct""",
    "write": """write read publish study discuss translate quote print copy recite annotate memorise""",
}

ADJECTIVES = """old small heavy young strange famous quiet green tall careful expensive broken clever useful red lonely
    ancient gentle wooden curious dusty cheerful enormous nervous blue fragile wonderful generous rusty golden tiny
    peaceful colourful noisy dangerous elegant patient yellow graceful shiny valuable crooked thoughtful narrow modest
    luminous clumsy delicate remarkable playful silver adventurous humble fashionable stubborn hopeful spotless
    mysterious comfortable purple eager skilful velvet portable ambitious sleepy rectangular frosty tasteful
    triangular ridiculous"""

MANNER = """slowly carefully quietly quickly gently eagerly happily proudly calmly secretly patiently nervously
    cheerfully bravely politely gracefully clumsily silently generously curiously playfully stubbornly elegantly
    hopefully skilfully sleepily thoughtfully reluctantly"""

GIVEN_NAMES = """Anna Peter Maria Oscar Clara Hugo Nora Felix Ruth Simon Edith Victor Greta Leon Irene Martin Paula
    Bruno Stella Tobias Agnes Conrad Flora Walter Selma Jasper Miriam Rufus Thelma Cedric"""
FAMILY_NAMES = """Miller Harper Lindgren Castle Novak Bellamy Forster Quill Adler Marlow Sorensen Whitby Pemberton
    Ashdown Tremaine Holloway Vesper Kirkwood Langley Underhill"""
CITIES = """Lisbon Vienna Oslo Dublin Verona Bergen Prague Toledo Geneva Riga Seville Tallinn Krakow Antwerp
    Ghent"""

FREQUENCIES = ["often", "never", "always", "soon"]
TIMES = ["yesterday", "today", "again"]
DEGREES = ["very", "rather", "quite"]
MODALS = ["will", "can", "must", "should", "may", "could"]
NUMBERS = ["two", "three", "four", "seven", "twelve", "14", "25", "60"]

# Which prepositions a noun or a verb takes, and what they govern: the preferences a parser has to learn.

NOUN_PREPOSITIONS = {
    "person": [("with", "trait"), ("from", "place"), ("near", "place"), ("with", "animal"), ("behind", "object")],
    "animal": [("with", "trait"), ("from", "place"), ("under", "object"), ("near", "place")],
    "object": [("with", "part"), ("from", "place"), ("for", "person"), ("on", "object"), ("near", "object")],
    "tool": [("with", "part"), ("from", "place"), ("of", "person")],
    "place": [("near", "place"), ("of", "person"), ("with", "part"), ("behind", "place")],
    "text": [("about", "topic"), ("by", "person"), ("about", "person"), ("on", "topic"), ("from", "person")],
    "event": [("in", "place"), ("about", "topic"), ("for", "person"), ("with", "person")],
    "topic": [("of", "person"), ("about", "place"), ("behind", "event")],
}
VERB_PREPOSITIONS = {
    "move": [("to", "place"), ("through", "place"), ("across", "place"), ("with", "person"), ("from", "place")],
    "appear": [("in", "place"), ("during", "event"), ("near", "place"), ("with", "person"), ("after", "event")],
    "make": [("with", "tool"), ("for", "person"), ("in", "place"), ("with", "tool"), ("during", "event")],
    "perceive": [("with", "tool"), ("from", "place"), ("during", "event"), ("through", "object")],
    "give": [("to", "person"), ("during", "event"), ("after", "event"), ("in", "place")],
    "place": [("on", "object"), ("under", "object"), ("behind", "object"), ("in", "place")],
    "talk": [("about", "topic"), ("with", "person"), ("about", "person"), ("during", "event"), ("on", "object")],
    "claim": [("in", "text"), ("after", "event"), ("during", "event")],
    "ask": [("in", "text"), ("after", "event")],
    "want": [("after", "event")],
    "write": [("for", "person"), ("in", "place"), ("with", "tool"), ("on", "object")],
}
OBJECTS = {
    "make": ["object", "object", "tool"],
    "perceive": ["person", "object", "animal", "place", "event"],
    "give": ["object", "text", "tool"],
    "place": ["object", "tool", "text"],
    "ask": ["person"],
    "write": ["text"],
}
PRONOUNS = {
    ("1", "Sing"): ("I", "me", "my"),
    ("1", "Plur"): ("we", "us", "our"),
    ("2", "Sing"): ("you", "you", "your"),
    ("3", "Plur"): ("they", "them", "their"),
    ("3", "Fem"): ("she", "her", "her"),
    ("3", "Masc"): ("he", "him", "his"),
}
IRREGULAR = {  # past, past participle
    "think": ("thought", "thought"),
    "say": ("said", "said"),
    "know": ("knew", "known"),
    "see": ("saw", "seen"),
    "build": ("built", "built"),
    "give": ("gave", "given"),
    "lend": ("lent", "lent"),
    "show": ("showed", "shown"),
    "spread": ("spread", "spread"),
    "hide": ("hid", "hidden"),
    "teach": ("taught", "taught"),
    "write": ("wrote", "written"),
    "read": ("read", "read"),
    "have": ("had", "had"),
    "do": ("did", "done"),
}
VOWELS = ("a", "e", "i", "o", "um", "A", "E", "I", "O", "U")
DOUBLED = {"wrap", "drop", "plan", "chat", "admit", "spot", "compel", "travel"}


def with_s(lemma: str) -> str:
    """The plural of a noun, or the third person of a verb."""
    if lemma.endswith(("s", "x", "z", "ch", "sh")):
        return lemma + "es"
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return lemma[:-1] + "ies"
    return lemma + "s"


def with_ed(lemma: str) -> str:
    """The regular past of a verb."""
    if lemma.endswith("e"):
        return lemma + "d"
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return lemma[:-1] + "ied"
    return lemma + (lemma[-1] if lemma in DOUBLED else "") + "ed"


def with_ing(lemma: str) -> str:
    """The present participle of a verb."""
    if lemma.endswith("e") and not lemma.endswith(("ee", "oe")) and lemma != "be":
        return lemma[:-1] + "ing"
    return lemma + (lemma[-1] if lemma in DOUBLED else "") + "ing"
