// German texts of the view Search by the English ones.

export const SEARCH = {
  "Search": "Suche",
  "red van, a plate, a name": "roter Transporter, Kennzeichen, Name",
  "Words to search for": "Gesuchte Wörter",
  "The object that results look like": "Das Objekt, dem die Treffer ähneln",
  "Objects that look like this one, on all cameras that you see. The most alike come first.":
    "Objekte, die diesem ähneln, von allen Kameras, die Sie sehen. Die ähnlichsten stehen vorn.",
  "Show all objects": "Alle Objekte zeigen",
  "Results": "Treffer",
  "1 result": "1 Treffer",
  "{count} results": "{count} Treffer",
  "The newest objects. Search by words, or choose a picture and what looks like it.":
    "Die neuesten Objekte. Suchen Sie mit Wörtern, oder wählen Sie bei einem Bild, was ihm ähnelt.",
  "Only texts, names and classes are searched, not pictures: {why}.":
    "Nur Texte, Namen und Klassen werden durchsucht, keine Bilder: {why}.",
  "These are the first {count}: choose a camera, a class or a time for others.":
    "Das sind die ersten {count}: Für weitere eine Kamera, eine Klasse oder eine Zeit wählen.",
  "{count} older objects are found by words only: their pictures were read by another model.":
    "{count} ältere Objekte werden nur mit Wörtern gefunden: Ihre Bilder hat ein anderes Modell gelesen.",
  "Search is not set up in this graph: {why}.": "Die Suche ist in diesem Graphen nicht eingerichtet: {why}.",
  "Objects cannot be compared by their looks: {why}.": "Objekte lassen sich nicht nach dem Aussehen vergleichen: {why}.",
  "No object has been kept yet. Each object is kept when it has left the picture.":
    "Noch ist kein Objekt gespeichert. Jedes Objekt wird gespeichert, wenn es das Bild verlassen hat.",
  "Nothing was found among {count} objects. Try other words, another camera or a longer time.":
    "Unter {count} Objekten wurde nichts gefunden. Versuchen Sie andere Wörter, eine andere Kamera oder eine längere Zeit.",
  "Object": "Objekt",
  "Incident": "Ereignis",
  "Looks like this": "Ähnliche suchen",
  "The words match": "Die Wörter passen",
  "The picture fits": "Das Bild passt",
  "Looks very alike": "Sehr ähnlich",
  "Looks alike": "Ähnlich",
  "Looks less alike": "Weniger ähnlich",
};
