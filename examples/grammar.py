"""A small grammar that draws sentences with Universal Dependencies labels, part-of-speech tags, lemmas and features.

What makes the sentences worth parsing:

- Prepositional phrases attach to the verb or to the noun by what the verb, the noun and the preposition's object mean,
  most of the time: a lamp is repaired with a hammer, but a lamp with a handle is repaired.
- Relative and participial clauses, coordination and adverbial clauses have several places to attach to.
- One sentence in six or so is non-projective: extraposed relative clauses and prepositional phrases, questions out
  of subordinate clauses, stranded prepositions, topics.
- Every fifth word of the lexicon never occurs in the training file.

Only `random.Random.random` is drawn from: of that alone Python promises the same numbers in every version.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lexicon import (
    ADJECTIVES,
    CITIES,
    DEGREES,
    FAMILY_NAMES,
    FREQUENCIES,
    GIVEN_NAMES,
    IRREGULAR,
    MANNER,
    MODALS,
    NOUN_PREPOSITIONS,
    NOUNS,
    NUMBERS,
    OBJECTS,
    PRONOUNS,
    TIMES,
    VERB_PREPOSITIONS,
    VERBS,
    VOWELS,
    with_ed,
    with_ing,
    with_s,
)

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Word:
    """A word of a sentence under construction; its head is another word."""

    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str = "_"
    head: Word | None = None
    deprel: str = "root"
    glued: bool = False  # no space before it


@dataclass
class Phrase:
    """Words in order, the one that heads them, and what is said of it only later in the sentence."""

    head: Word
    words: list[Word]
    kind: str = "person"
    person: str = "3"
    number: str = "Sing"
    later: list[Word] = field(default_factory=list)


@dataclass
class Predicate:
    """A verb or a copula's complement with all that follows it, still without its subject."""

    head: Word
    words: list[Word]
    front: list[Word] = field(default_factory=list)  # the auxiliary that a question puts before the subject
    subject: str = "nsubj"
    gap: Word | None = None  # the word on which a phrase depends that stands elsewhere
    gap_relation: str = "obj"
    stranded: Word | None = None  # the preposition that the phrase has left behind


def attach(words: Sequence[Word], word: Word, head: Word, deprel: str) -> list[Word]:
    """Make `word` a dependent of `head` and return the words of its phrase."""
    word.head, word.deprel = head, deprel
    return list(words)


def verb(lemma: str, form: str, person: str = "3", number: str = "Sing", upos: str = "VERB") -> Word:
    """A verb in the form asked: `VB`, `VBG`, `VBN`, `past` or `present`."""
    past, participle = IRREGULAR.get(lemma) or (with_ed(lemma), with_ed(lemma))
    third = person == "3" and number == "Sing"
    if form == "VB":
        return Word(lemma, lemma, upos, "VB", "VerbForm=Inf")
    if form == "VBG":
        return Word(with_ing(lemma), lemma, upos, "VBG", "Tense=Pres|VerbForm=Part")
    if form == "VBN":
        return Word("been" if lemma == "be" else participle, lemma, upos, "VBN", "Tense=Past|VerbForm=Part")
    if form == "past":
        if lemma == "be":
            past = "was" if number == "Sing" and person != "2" else "were"
        return Word(past, lemma, upos, "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin")
    if lemma == "be":
        present = "is" if third else "am" if (person, number) == ("1", "Sing") else "are"
    elif lemma == "have":
        present = "has" if third else "have"
    else:
        present = ("does" if lemma == "do" else with_s(lemma)) if third else lemma
    feats = "Mood=Ind|Number=Sing|Person=3|Tense=Pres|VerbForm=Fin" if third else "Mood=Ind|Tense=Pres|VerbForm=Fin"
    return Word(present, lemma, upos, "VBZ" if third else "VBP", feats)


def function_word(form: str, upos: str, xpos: str, feats: str = "_", lemma: str = "") -> Word:
    """A word of a closed class."""
    return Word(form, lemma or form, upos, xpos, feats)


def comma() -> Word:
    """A comma, without a space before it."""
    return Word(",", ",", "PUNCT", ",", glued=True)


class Grammar:
    """Draws sentences.

    Args:
        generator: the source of all choices.
        held_out: whether the words kept from training may be used.
    """

    def __init__(self, generator: random.Random, held_out: bool) -> None:
        self.random = generator.random
        self.held_out = held_out
        self.depth = 0

    # Choices

    def chance(self, probability: float) -> bool:
        """True with this probability, less often the deeper the clause."""
        return self.random() < probability * 0.55**self.depth

    def one(self, items: Sequence[T]) -> T:
        """Any of the items, all equally likely."""
        return items[int(self.random() * len(items))]

    def draw(self, lexicon: str) -> str:
        """A word of the lexicon, the first ones more often than the last."""
        words = lexicon.split()
        while True:
            r = self.random()
            index = int((r * 0.5 + r * r * 0.5) * len(words))
            if self.held_out or index % 5 != 4:
                return words[index]

    def weighted(self, options: dict[str, float]) -> str:
        """A key, with probability proportional to its value."""
        left = self.random() * sum(options.values())
        for option, weight in options.items():
            left -= weight
            if left < 0:
                return option
        return option

    # Noun phrases

    def noun_phrase(
        self, kind: str, role: str = "obj", *, avoid: Sequence[str] = (), extrapose: bool = False
    ) -> Phrase:
        """A noun phrase of this kind of meaning.

        Args:
            kind: a key of `NOUNS`.
            role: `nsubj` draws pronouns in the nominative.
            avoid: prepositions that the verb claims for itself, so that the noun takes them seldom.
            extrapose: leave the last modifier to be said later.
        """
        if not extrapose and kind == "person":
            if self.random() < (0.3 if role == "nsubj" else 0.12):
                return self.pronoun(role)
            if self.random() < 0.25:
                return self.name()
        plural = self.random() < 0.3
        phrase = self.noun(kind, plural, definite=0.2 if extrapose else 0.65)
        if extrapose:
            modifier = self.relative_clause(phrase) if self.random() < 0.7 else self.noun_modifier(phrase, avoid)
            phrase.later = modifier
            return phrase
        if self.chance(0.1):
            phrase = self.coordinated(phrase, kind)
        if self.chance(0.3):
            phrase.words += self.noun_modifier(phrase, avoid)
        if self.chance(0.12):
            phrase.words += self.relative_clause(phrase)
        elif self.chance(0.07):
            phrase.words += self.participial(phrase)
        return phrase

    def noun(self, kind: str, plural: bool, definite: float = 0.65) -> Phrase:
        """A determiner or possessor, adjectives, a number and a noun."""
        lemma = self.draw(NOUNS[kind])
        number = "Plur" if plural else "Sing"
        head = Word(with_s(lemma) if plural else lemma, lemma, "NOUN", "NNS" if plural else "NN", f"Number={number}")
        inner: list[Word] = []
        if plural and self.random() < 0.2:
            form = self.one(NUMBERS)
            number_word = Word(form, form, "NUM", "CD", f"NumForm={'Digit' if form.isdigit() else 'Word'}|NumType=Card")
            inner += attach([number_word], number_word, head, "nummod")
        while self.chance(0.28):
            inner += self.adjective(head)
        if kind in ("object", "place", "event") and self.random() < 0.08:
            other = self.draw(NOUNS["place" if kind == "object" else "object"])
            compound = Word(other, other, "NOUN", "NN", "Number=Sing")
            inner += attach([compound], compound, head, "compound")
        first = inner[0].form if inner else head.form
        return Phrase(head, [*self.determiner(head, plural, first, definite), *inner, head], kind, number=number)

    def determiner(self, head: Word, plural: bool, first: str, definite: float) -> list[Word]:
        """Return the beginning of a noun phrase whose next word is `first`: an article, a possessor or nothing."""
        if self.chance(0.08):
            if self.random() < 0.4:
                key = self.one(list(PRONOUNS))
                nominative, _, possessive = PRONOUNS[key]
                feats = f"Case=Gen|Person={key[0]}|Poss=Yes|PronType=Prs"
                pronoun = Word(possessive, nominative, "PRON", "PRP$", feats)
                return attach([pronoun], pronoun, head, "nmod:poss")
            self.depth += 2
            owner = self.name() if self.random() < 0.5 else self.noun("person", False)
            self.depth -= 2
            mark = Word("'s", "'s", "PART", "POS", glued=True)
            owner.words += attach([mark], mark, owner.head, "case")
            return attach(owner.words, owner.head, head, "nmod:poss")
        if self.random() < definite:
            form = self.weighted({"the": 8, "those" if plural else "this": 1})
            if form == "the":
                word = function_word("the", "DET", "DT", "Definite=Def|PronType=Art")
            else:
                feats = f"Number={'Plur' if plural else 'Sing'}|PronType=Dem"
                word = function_word(form, "DET", "DT", feats, "that" if plural else "this")
        elif plural:
            if self.random() < 0.6 or first in NUMBERS:
                return []
            word = function_word("some", "DET", "DT", "PronType=Ind")
        else:
            feats = "Definite=Ind|PronType=Art"
            word = function_word("an" if first.startswith(VOWELS) else "a", "DET", "DT", feats, "a")
        return attach([word], word, head, "det")

    def adjective(self, head: Word) -> list[Word]:
        """An adjective before its noun, perhaps with a degree or a second one coordinated."""
        lemma = self.draw(ADJECTIVES)
        word = Word(lemma, lemma, "ADJ", "JJ", "Degree=Pos")
        words = attach([word], word, head, "amod")
        if self.random() < 0.1:
            degree = self.one(DEGREES)
            words = self.adverb(degree, word) + words
        if self.chance(0.08):
            other = self.draw(ADJECTIVES)
            second = Word(other, other, "ADJ", "JJ", "Degree=Pos")
            words += self.conjunction(second) + attach([second], second, word, "conj")
        return words

    def adverb(self, form: str, head: Word) -> list[Word]:
        """An adverb that modifies `head`."""
        word = function_word(form, "ADV", "RB")
        return attach([word], word, head, "advmod")

    def conjunction(self, head: Word, form: str = "") -> list[Word]:
        """A coordinating conjunction before the conjunct that `head` heads."""
        word = function_word(form or self.weighted({"and": 5, "or": 1}), "CCONJ", "CC")
        return attach([word], word, head, "cc")

    def coordinated(self, phrase: Phrase, kind: str) -> Phrase:
        """The phrase with one or two more nouns of its kind coordinated with it."""
        if self.random() < 0.25:
            middle = self.noun(kind, self.random() < 0.4)
            mark = comma()
            phrase.words += attach([mark], mark, middle.head, "punct")
            phrase.words += attach(middle.words, middle.head, phrase.head, "conj")
        last = self.noun(kind, self.random() < 0.4, definite=0.5)
        phrase.words += self.conjunction(last.head, "and") + attach(last.words, last.head, phrase.head, "conj")
        phrase.number = "Plur"
        return phrase

    def name(self) -> Phrase:
        """A person's name, sometimes with a surname, a relative clause or an apposition."""
        given = self.draw(GIVEN_NAMES)
        head = Word(given, given, "PROPN", "NNP", "Number=Sing")
        words = [head]
        if self.random() < 0.3:
            family = self.draw(FAMILY_NAMES)
            surname = Word(family, family, "PROPN", "NNP", "Number=Sing")
            words += attach([surname], surname, head, "flat")
        phrase = Phrase(head, words)
        if self.chance(0.05):
            self.depth += 2
            apposition = self.noun("person", False)
            self.depth -= 2
            before, after = comma(), comma()
            words += attach([before], before, apposition.head, "punct")
            words += attach(apposition.words, apposition.head, head, "appos")
            words += attach([after], after, apposition.head, "punct")
        return phrase

    def pronoun(self, role: str) -> Phrase:
        """A personal pronoun, in the nominative as a subject and in the accusative elsewhere."""
        key = self.one(list(PRONOUNS))
        person, second = key
        nominative, accusative, _ = PRONOUNS[key]
        subject = role == "nsubj"
        gender = f"Gender={second}|" if second in ("Fem", "Masc") else ""
        number = "Sing" if gender else second
        feats = f"Case={'Nom' if subject else 'Acc'}|{gender}Number={number}|Person={person}|PronType=Prs"
        word = Word(nominative if subject else accusative, nominative, "PRON", "PRP", feats)
        return Phrase(word, [word], person=person, number=number)

    def prepositional(self, preposition: str, kind: str, head: Word, deprel: str) -> list[Word]:
        """A preposition and its noun phrase, attached to `head`."""
        self.depth += 1
        city = kind == "place" and preposition in ("from", "in", "to", "near") and self.random() < 0.15
        if city:
            form = self.draw(CITIES)
            word = Word(form, form, "PROPN", "NNP", "Number=Sing")
            phrase = Phrase(word, [word])
        else:
            phrase = self.noun_phrase(kind)
        self.depth -= 1
        case = function_word(preposition, "ADP", "IN")
        return attach([case], case, phrase.head, "case") + attach(phrase.words, phrase.head, head, deprel)

    def noun_modifier(self, phrase: Phrase, avoid: Sequence[str] = ()) -> list[Word]:
        """A prepositional phrase that modifies a noun."""
        options = NOUN_PREPOSITIONS.get(phrase.kind, [("of", "person"), ("from", "place")])
        preposition, kind = self.one(options)
        if preposition in avoid and self.random() < 0.8:
            preposition, kind = self.one(options)
        return self.prepositional(preposition, kind, phrase.head, "nmod")

    # Clauses that modify nouns

    def relative_clause(self, phrase: Phrase) -> list[Word]:
        """A finite relative clause, attached to the noun."""
        self.depth += 1
        pronoun = "who" if phrase.kind == "person" else "which"
        pronoun = "that" if self.random() < 0.4 else pronoun
        relative = Word(pronoun, pronoun, "PRON", "WDT" if pronoun != "who" else "WP", "PronType=Rel")
        sort = self.weighted({"subject": 5, "object": 3, "bare": 1.5, "stranded": 0.5})
        if sort == "subject":
            predicate = self.predicate(phrase, "finite")
            words = attach([relative], relative, predicate.head, predicate.subject) + predicate.words
        else:
            subject = self.noun_phrase("person", "nsubj")
            predicate = self.predicate(subject, "finite", gap="obl" if sort == "stranded" else "obj")
            words = attach(subject.words, subject.head, predicate.head, predicate.subject) + predicate.words
            if sort != "bare":
                words = self.fill(Phrase(relative, [relative]), predicate) + words
        self.depth -= 1
        return attach(words, predicate.head, phrase.head, "acl:relcl")

    def participial(self, phrase: Phrase) -> list[Word]:
        """A participle with its complements, attached to the noun."""
        self.depth += 1
        if phrase.kind in ("person", "animal"):
            predicate = self.predicate(phrase, "participle")
            head, words = predicate.head, predicate.words
        else:
            head = verb(self.draw(VERBS["write" if phrase.kind == "text" else "make"]), "VBN")
            words = [head, *self.prepositional("by", "person", head, "obl:agent")]
        self.depth -= 1
        return attach(words, head, phrase.head, "acl")

    # Verb phrases

    def verb_group(self, lemma: str, subject: Phrase, mode: str, *, passive: bool = False) -> tuple[list[Word], Word]:
        """Auxiliaries in order, and the verb.

        Args:
            lemma: the main verb, or `be` for a copula.
            subject: whose person and number a finite verb shows.
            mode: `finite`, `inverted` (there will be an auxiliary to put in front), `infinitive`, `participle`,
                `imperative`.
            passive: add the auxiliary of the passive.
        """
        chain = ["be", lemma] if passive else [lemma]
        forms = ["VBN"] if passive else []
        first = {"infinitive": "VB", "imperative": "VB", "participle": "VBG"}.get(mode)
        first = first or self.one(["past", "past", "present"])
        if mode in ("finite", "inverted"):
            tense = self.weighted({"simple": 6, "modal": 1.5, "perfect": 1, "progressive": 0 if lemma == "be" else 1})
            negated = self.random() < 0.07
            if tense == "perfect":
                chain, forms = ["have", *chain], ["VBN", *forms]
            elif tense == "progressive" and not passive:
                chain, forms = ["be", *chain], ["VBG", *forms]
            elif tense == "modal":
                chain, forms = [self.one(MODALS), *chain], ["VB", *forms]
            if len(chain) == 1 and lemma != "be" and (negated or mode == "inverted"):
                chain, forms = ["do", lemma], ["VB"]
        else:
            negated = False
        words: list[Word] = []
        for position, (link, form) in enumerate(zip(chain, [first, *forms], strict=True)):
            upos = "VERB" if position == len(chain) - 1 and lemma != "be" else "AUX"
            if link in MODALS:
                words.append(function_word(link, "AUX", "MD", "VerbForm=Fin"))
            else:
                words.append(verb(link, form, subject.person, subject.number, upos))
            if negated and position == 0 and (len(chain) > 1 or lemma == "be"):
                words.append(function_word("not", "PART", "RB", "Polarity=Neg"))
        main = next(word for word in reversed(words) if word.upos != "PART")
        for word in words:
            if word is not main:
                word.head, word.deprel = main, "advmod" if word.upos == "PART" else "aux"
        if passive:
            words[-2 if words[-2].upos == "AUX" else -3].deprel = "aux:pass"
            main.feats = "Tense=Past|VerbForm=Part|Voice=Pass"
        words.remove(main)
        return words, main

    def predicate(self, subject: Phrase, mode: str, gap: str = "") -> Predicate:
        """A verb phrase.

        Args:
            subject: the phrase that will be its subject.
            mode: as for `verb_group`.
            gap: `obj` or `obl` for a verb phrase that lacks this dependent, because it stands elsewhere.
        """
        self.depth += 1
        active = subject.kind in ("person", "animal")
        if gap == "obl":
            frame = self.weighted({"move": 2, "place": 3, "make": 1})
        elif gap == "obj":
            frame = self.weighted({"make": 3, "perceive": 3, "write": 1, "claim": 1.2, "want": 0.8})
        elif not active:
            frame = self.weighted({"appear": 2, "passive": 3, "copula": 4})
        else:
            deep = 0.5**self.depth
            weights: dict[str, float] = {"make": 4, "perceive": 3, "move": 2.5, "appear": 1, "give": 1.5, "place": 1.5}
            weights |= {"talk": 1, "write": 1.2, "claim": 6 * deep, "want": 4 * deep, "ask": 3 * deep}
            if mode in ("finite", "inverted"):
                weights |= {"copula": 3, "passive": 0.6}
            frame = self.weighted(weights)
        if frame == "copula":
            predicate = self.copula(subject, mode)
        elif frame == "passive":
            predicate = self.passive(subject, mode)
        else:
            predicate = self.active(frame, subject, mode, gap)
        self.depth -= 1
        if mode == "finite" and active and not gap and self.chance(0.1):
            predicate.words += self.second_predicate(subject, predicate.head)
        return predicate

    def second_predicate(self, subject: Phrase, head: Word) -> list[Word]:
        """Another verb phrase with the same subject."""
        self.depth += 1
        second = self.active(self.weighted({"make": 3, "perceive": 2, "move": 2, "write": 1}), subject, "finite", "")
        self.depth -= 1
        words = self.conjunction(second.head, self.weighted({"and": 4, "but": 1})) + second.words
        return attach(words, second.head, head, "conj")

    def copula(self, subject: Phrase, mode: str) -> Predicate:
        """Return a clause of the verb "to be" with an adjective, a noun or a place."""
        sort = self.weighted({"adjective": 4, "noun": 1.5 if subject.kind == "person" else 0, "place": 1.5})
        if sort == "adjective":
            lemma = self.draw(ADJECTIVES)
            head = Word(lemma, lemma, "ADJ", "JJ", "Degree=Pos")
            words = [head]
            if self.random() < 0.3:
                words = self.adverb(self.one(DEGREES), head) + words
            if subject.kind == "person" and self.chance(0.2):
                words += self.to_infinitive(subject, head, "xcomp")
        elif sort == "noun":
            phrase = self.noun("person", subject.number == "Plur", definite=0.3)
            if self.chance(0.4):
                phrase.words += self.noun_modifier(phrase)
            head, words = phrase.head, phrase.words
        else:
            phrase = self.noun("place", False)
            case = function_word(self.one(["in", "near", "behind"]), "ADP", "IN")
            head, words = phrase.head, attach([case], case, phrase.head, "case") + phrase.words
        auxiliaries, be = self.verb_group("be", subject, mode)
        be.head, be.deprel = head, "cop"
        for word in auxiliaries:
            word.head = head
        negation = [word for word in auxiliaries if word.upos == "PART"]
        finite = [word for word in auxiliaries if word.upos != "PART"]
        group = [*finite, *negation, be] if finite else [be, *negation]
        front = [group.pop(0)] if mode == "inverted" else []
        return Predicate(head, group + words, front)

    def passive(self, subject: Phrase, mode: str) -> Predicate:
        """A passive verb, perhaps with its agent and an adjunct."""
        frame = {"text": "write", "object": "make", "tool": "make"}.get(subject.kind, "perceive")
        words, head = self.verb_group(self.draw(VERBS[frame]), subject, mode, passive=True)
        front = [words.pop(0)] if mode == "inverted" else []
        words.append(head)
        if self.chance(0.4):
            words += self.prepositional("by", "person", head, "obl:agent")
        words += self.adjuncts(frame, head)
        return Predicate(head, words, front, "nsubj:pass")

    def active(self, frame: str, subject: Phrase, mode: str, gap: str) -> Predicate:
        """A verb of this frame with its objects, complements and adjuncts."""
        auxiliaries, head = self.verb_group(self.draw(VERBS[frame]), subject, mode)
        front = [auxiliaries.pop(0)] if mode == "inverted" else []
        words = auxiliaries
        if mode == "finite" and self.random() < 0.1 and all(word.form != "not" for word in words):
            words += self.adverb(self.draw(MANNER) if self.random() < 0.5 else self.one(FREQUENCIES), head)
        words.append(head)
        predicate = Predicate(head, words, front)
        if gap == "obl":
            self.strand(predicate, frame)
        elif gap and frame in ("make", "perceive", "write"):
            predicate.gap = head
            words += self.adjuncts(frame, head)
        elif frame == "claim":
            self.finite_complement(predicate, gap)
        elif frame == "want":
            words += self.to_infinitive(subject, head, "xcomp", gap, predicate)
        elif frame == "ask":
            words += self.object(frame, head)
            words += self.to_infinitive(subject, head, "xcomp")
        elif frame in OBJECTS:
            self.objects(predicate, frame, subject, mode)
        else:
            words += self.adjuncts(frame, head)
        return predicate

    def object(self, frame: str, head: Word) -> list[Word]:
        """A direct object without anything extraposed."""
        phrase = self.noun_phrase(self.one(OBJECTS[frame]), avoid=[p for p, _ in VERB_PREPOSITIONS[frame]])
        return attach(phrase.words, phrase.head, head, "obj")

    def objects(self, predicate: Predicate, frame: str, subject: Phrase, mode: str) -> None:
        """Objects and adjuncts; part of the object may come after the adverbial."""
        head, words = predicate.head, predicate.words
        if frame == "give" and self.random() < 0.4:
            receiver = self.pronoun("obj") if self.random() < 0.4 else self.noun("person", False)
            words += attach(receiver.words, receiver.head, head, "iobj")
            words += self.object(frame, head)
            words += self.adverbials(head)
            return
        if mode == "finite" and frame == "make" and self.random() < 0.08:
            form = {"VBD": "past", "VBZ": "present", "VBP": "present"}.get(head.xpos, head.xpos)
            second = verb(self.draw(VERBS["make"]), form, subject.person, subject.number)
            words += self.conjunction(second, "and") + attach([second], second, head, "conj")
        if mode == "finite" and self.chance(0.12):
            phrase = self.noun_phrase(self.one(OBJECTS[frame]), extrapose=True)
            words += attach(phrase.words, phrase.head, head, "obj")
            words += self.adverb(self.one(TIMES), head) if self.random() < 0.7 else self.adverbial_noun(head)
            words += phrase.later
            return
        words += self.object(frame, head)
        words += self.adjuncts(frame, head, 0.9 if frame == "place" else 0.45)

    def strand(self, predicate: Predicate, frame: str) -> None:
        """An object where the verb needs one, and a preposition whose noun stands elsewhere."""
        if frame in OBJECTS:
            phrase = self.noun(self.one(OBJECTS[frame]), False)
            predicate.words += attach(phrase.words, phrase.head, predicate.head, "obj")
        preposition, _ = self.one(VERB_PREPOSITIONS[frame][:3])
        predicate.stranded = function_word(preposition, "ADP", "IN")
        predicate.words.append(predicate.stranded)
        predicate.gap, predicate.gap_relation = predicate.head, "obl"

    def finite_complement(self, predicate: Predicate, gap: str) -> None:
        """A subordinate clause with or without `that`; a gap is handed down into it."""
        subject = self.noun_phrase(self.weighted({"person": 4, "object": 0 if gap else 1, "animal": 1}), "nsubj")
        inner = self.predicate(subject, "finite", gap)
        words = attach(subject.words, subject.head, inner.head, inner.subject) + inner.words
        if self.random() < 0.6:
            mark = function_word("that", "SCONJ", "IN")
            words = attach([mark], mark, inner.head, "mark") + words
        predicate.words += attach(words, inner.head, predicate.head, "ccomp")
        predicate.gap, predicate.gap_relation, predicate.stranded = inner.gap, inner.gap_relation, inner.stranded

    def to_infinitive(
        self, subject: Phrase, head: Word, deprel: str, gap: str = "", outer: Predicate | None = None
    ) -> list[Word]:
        """An infinitive with `to`; a gap in it is handed up to `outer`."""
        inner = self.predicate(subject, "infinitive", gap)
        to = function_word("to", "PART", "TO")
        if outer:
            outer.gap, outer.gap_relation, outer.stranded = inner.gap, inner.gap_relation, inner.stranded
        return attach(attach([to], to, inner.head, "mark") + inner.words, inner.head, head, deprel)

    def adjuncts(self, frame: str, head: Word, probability: float = 0.5) -> list[Word]:
        """The prepositional phrases the verb likes, then adverbials."""
        words: list[Word] = []
        while self.random() < probability:
            preposition, kind = self.one(VERB_PREPOSITIONS[frame])
            words += self.prepositional(preposition, kind, head, "obl")
            probability /= 3
        return words + self.adverbials(head)

    def adverbials(self, head: Word) -> list[Word]:
        """Perhaps an adverb or a time, and perhaps a clause."""
        words: list[Word] = []
        if self.chance(0.25):
            words += self.adverb(self.draw(MANNER) if self.random() < 0.7 else self.one(TIMES), head)
        elif self.chance(0.12):
            words += self.adverbial_noun(head)
        if self.chance(0.1):
            words += self.adverbial_clause(head)
        return words

    def adverbial_noun(self, head: Word) -> list[Word]:
        """A time: `in the morning`, `every week`, `in 1875`."""
        if self.random() < 0.2:
            year = str(1800 + int(self.random() * 200))
            word = Word(year, year, "NUM", "CD", "NumForm=Digit|NumType=Card")
            case = function_word("in", "ADP", "IN")
            return attach([case], case, word, "case") + attach([word], word, head, "obl")
        lemma = self.draw(NOUNS["time"])
        noun = Word(lemma, lemma, "NOUN", "NN", "Number=Sing")
        if self.random() < 0.4:
            every = function_word("every", "DET", "DT", "PronType=Tot")
            return attach([every], every, noun, "det") + attach([noun], noun, head, "obl:tmod")
        case, the = function_word("during", "ADP", "IN"), function_word("the", "DET", "DT", "Definite=Def|PronType=Art")
        words = attach([case], case, noun, "case") + attach([the], the, noun, "det")
        return words + attach([noun], noun, head, "obl")

    def adverbial_clause(self, head: Word) -> list[Word]:
        """A clause of time, reason, condition or purpose."""
        self.depth += 1
        if self.random() < 0.25:
            words = self.to_infinitive(Phrase(head, []), head, "advcl")
        else:
            inner_head, words = self.clause()
            form = self.one(["when", "because", "although", "if", "while", "before", "after", "until"])
            mark = function_word(form, "SCONJ", "WRB" if form == "when" else "IN")
            words = attach([mark], mark, inner_head, "mark") + words
            attach([], inner_head, head, "advcl")
        self.depth -= 1
        return words

    # Sentences

    def clause(self) -> tuple[Word, list[Word]]:
        """A finite clause in the order subject, verb, rest."""
        kind = self.weighted({"person": 6, "animal": 1, "object": 1.5, "text": 0.5, "event": 0.4})
        if self.chance(0.13):
            subject = self.noun_phrase(kind, "nsubj", extrapose=True)
            if kind == "text":
                predicate = self.passive(subject, "finite")
            else:
                predicate = self.active("appear", subject, "finite", "")
        else:
            subject = self.noun_phrase(kind, "nsubj")
            predicate = self.predicate(subject, "finite")
        words = attach(subject.words, subject.head, predicate.head, predicate.subject) + predicate.words
        return predicate.head, words + subject.later

    def statement(self) -> tuple[Word, list[Word]]:
        """A clause, with something in front of it or a second clause after it."""
        head, words = self.clause()
        opening = self.weighted({"none": 14, "clause": 1.2, "place": 1, "adverb": 1, "participle": 0.7})
        if opening == "clause":
            words = self.with_comma(self.adverbial_clause(head)) + words
        elif opening == "place":
            words = self.prepositional(self.one(["in", "near", "behind"]), "place", head, "obl") + words
        elif opening == "adverb":
            words = self.adverb(self.one(["perhaps", "sometimes", "meanwhile", *TIMES]), head) + words
        elif opening == "participle":
            self.depth += 1
            person = Phrase(head, [])
            inner = self.predicate(person, "participle")
            self.depth -= 1
            words = self.with_comma(attach(inner.words, inner.head, head, "advcl")) + words
        if self.random() < 0.07:
            other, more = self.clause()
            mark = comma()
            words += attach([mark], mark, other, "punct") + self.conjunction(other, self.one(["and", "but"]))
            words += attach(more, other, head, "conj")
        return head, words

    def with_comma(self, words: list[Word]) -> list[Word]:
        """The words of a clause with a comma after them, attached to their highest word."""
        mark = comma()
        top = next(word for word in words if word.head is None or all(word.head is not other for other in words))
        return words + attach([mark], mark, top, "punct")

    def topic(self) -> tuple[Word, list[Word]]:
        """An object in front of a clause, out of which it may come from a subordinate one."""
        topic = self.noun(self.one(["object", "text", "place"]), False, definite=1.0)
        subject = self.noun_phrase("person", "nsubj")
        predicate = self.predicate(subject, "finite", gap="obj")
        words = attach(subject.words, subject.head, predicate.head, predicate.subject) + predicate.words
        return predicate.head, self.fill(topic, predicate) + words

    def expletive(self) -> tuple[Word, list[Word]]:
        """`There is a lamp near the river.` or `It is strange that the lamp vanished.`"""
        if self.random() < 0.5:
            there = function_word("there", "PRON", "EX", "PronType=Dem")
            phrase = self.noun_phrase(self.one(["object", "animal", "text"]), avoid=["in"])
            be = verb("be", self.one(["past", "present"]), "3", phrase.number)
            words = [*attach([there], there, be, "expl"), be, *attach(phrase.words, phrase.head, be, "nsubj")]
            if self.random() < 0.7:
                words += self.prepositional(self.one(["in", "near"]), "place", be, "obl")
            return be, words
        lemma = self.one(["strange", "clear", "possible", "likely", "important"])
        head = Word(lemma, lemma, "ADJ", "JJ", "Degree=Pos")
        it = function_word("it", "PRON", "PRP", "Gender=Neut|Number=Sing|Person=3|PronType=Prs")
        be = verb("be", self.one(["past", "present"]), upos="AUX")
        inner, words = self.clause()
        that = function_word("that", "SCONJ", "IN")
        words = attach([that], that, inner, "mark") + attach(words, inner, head, "csubj")
        return head, attach([it], it, head, "expl") + attach([be], be, head, "cop") + [head, *words]

    def question(self) -> tuple[Word, list[Word]]:
        """A question for yes or no, for an adverbial, for the subject or for an object."""
        sort = self.weighted({"polar": 3, "adverb": 2, "subject": 1, "object": 4, "oblique": 1.5})
        if sort == "subject":
            who = Word("who", "who", "PRON", "WP", "PronType=Int")
            predicate = self.predicate(Phrase(who, [who]), "finite")
            return predicate.head, attach([who], who, predicate.head, predicate.subject) + predicate.words
        subject = self.noun_phrase("person", "nsubj")
        predicate = self.predicate(subject, "inverted", gap={"object": "obj", "oblique": "obl"}.get(sort, ""))
        words = attach(subject.words, subject.head, predicate.head, predicate.subject)
        words = predicate.front + words + predicate.words
        if sort == "adverb":
            form = self.one(["where", "when", "why", "how"])
            asked = Word(form, form, "ADV", "WRB", "PronType=Int")
            words = attach([asked], asked, predicate.head, "advmod") + words
        elif sort != "polar":
            words = self.fill(self.asked(), predicate) + words
        return predicate.head, words

    def asked(self) -> Phrase:
        """`what`, `who`, or `which lamp`."""
        if self.random() < 0.6:
            form = self.one(["what", "what", "who"])
            word = Word(form, form, "PRON", "WP", "PronType=Int")
            return Phrase(word, [word])
        lemma = self.draw(NOUNS[self.one(["object", "place", "tool"])])
        noun = Word(lemma, lemma, "NOUN", "NN", "Number=Sing")
        which = Word("which", "which", "DET", "WDT", "PronType=Int")
        return Phrase(noun, [*attach([which], which, noun, "det"), noun])

    def imperative(self) -> tuple[Word, list[Word]]:
        """A request, perhaps with `please`."""
        you = Phrase(Word("you", "you", "PRON", "PRP"), [], person="2")
        frame = self.weighted({"make": 3, "give": 2, "place": 2, "perceive": 1})
        predicate = self.active(frame, you, "imperative", "")
        predicate.head.feats = "Mood=Imp|VerbForm=Fin"
        words = predicate.words
        if self.random() < 0.3:
            please = Word("please", "please", "INTJ", "UH")
            words = attach([please], please, predicate.head, "discourse") + words
        return predicate.head, words

    def fill(self, phrase: Phrase, predicate: Predicate) -> list[Word]:
        """Attach a phrase where the predicate lacks one, and return its words."""
        assert predicate.gap is not None
        if predicate.stranded:
            attach([], predicate.stranded, phrase.head, "case")
        return attach(phrase.words, phrase.head, predicate.gap, predicate.gap_relation)

    def sentence(self) -> list[Word]:
        """A whole sentence with its final punctuation."""
        self.depth = 0
        sorts = {
            "statement": self.statement,
            "question": self.question,
            "topic": self.topic,
            "expletive": self.expletive,
            "imperative": self.imperative,
        }
        sort = self.weighted({"statement": 16, "question": 3, "topic": 0.7, "expletive": 1.2, "imperative": 1.2})
        head, words = sorts[sort]()
        form = {"question": "?", "imperative": self.one("!.")}.get(sort, ".")
        stop = Word(form, form, "PUNCT", ".", glued=True)
        words += attach([stop], stop, head, "punct")
        return [word for i, word in enumerate(words) if word.form != "," or words[i + 1].upos != "PUNCT"]
